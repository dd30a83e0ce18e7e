/** What the cost explorer says: what was seen, and what is worth trying next. */

import { showBytes, showFlops, showGrowth, showShare, together } from "./cost_numbers.js";
import { showCount } from "./ui.js";

/**
 * @typedef {import("./cost_explorer.js").Result} Result
 * @param {(key: string, values?: object) => string} t
 * @param {object} recipe
 * @param {string} language
 */
export function costSayings(t, recipe, language) {
  const number = (count) => showCount(count, language);

  /** The state in words and numbers. @param {Result} result */
  function seen({ model, seq, batch, num_kv_heads, sees, weight_bytes, crossing, now, doubled }) {
    const all = together(now);
    const share = (name) => showShare(now[name] / all, language);
    const growth = (name) => showGrowth(doubled[name] / now[name], language);
    const { positions, generates } = recipe.models[model];
    const said = [
      t(batch === 1 ? "seen_one" : "seen_batch", {
        model: t(`model_${model}`),
        seq: number(seq),
        batch,
        flops: showFlops(all, language),
      }),
      t("seen_shares", {
        products: share("products"),
        projections: share("projections"),
        feed_forward: share("feed_forward"),
      }),
      t("seen_twice", {
        products: growth("products"),
        projections: growth("projections"),
        together: showGrowth(together(doubled) / all, language),
      }),
    ];
    if (crossing === null) said.push(t("seen_never", { sees: number(sees) }));
    else if (now.products === now.projections) said.push(t("seen_equal"));
    else said.push(t(seq < crossing ? "seen_before" : "seen_beyond", { crossing: number(crossing) }));
    if (generates) {
      const values = {
        cache: showBytes(now.kv_cache_bytes, language),
        weights: showBytes(weight_bytes, language),
        num_kv_heads,
      };
      said.push(t(now.kv_cache_bytes > weight_bytes ? "seen_cache_larger" : "seen_cache", values));
    }
    if (seq > positions) said.push(t("seen_longer", { positions: number(positions) }));
    return said.join(" ");
  }

  /** @param {Result} result */
  function suggestion({ model, seq, batch, num_kv_heads, sees, crossing }) {
    const { num_heads, generates } = recipe.models[model];
    if (sees !== null) return t(generates ? "try_all" : "try_all_seen");
    if (num_kv_heads < num_heads) return t(generates && batch < recipe.batches.at(-1) ? "try_batch" : "try_model");
    return t(seq >= crossing ? "try_window" : "try_longer");
  }

  return { seen, suggestion };
}
