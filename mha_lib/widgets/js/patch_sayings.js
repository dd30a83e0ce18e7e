/** What the patches say in words. Every sentence follows from the numbers in view. */

import { showCount, showWeight } from "./ui.js";

// Two weights that differ by less are the same: rounding alone makes them differ.
const SAME = 1e-9;

/**
 * @param {(key: string, values?: object) => string} t
 * @param {{pixels: string[], words: string[], patch_sizes: number[]}} recipe
 * @param {string} language
 */
export function patchSayings(t, { pixels, words, patch_sizes }, language) {
  const count = (number) => showCount(number, language);
  const side = pixels.length;

  /** What most pixels of a patch show. */
  function shown(patch, size) {
    const across = side / size;
    const [top, left] = [Math.floor(patch / across) * size, (patch % across) * size];
    const inside = pixels.slice(top, top + size).map((line) => line.slice(left, left + size)).join("");
    const often = words.map((_, digit) => inside.split(String(digit)).length - 1);
    return t(`word_${words[often.indexOf(Math.max(...often))]}`);
  }

  function named(patch, size) {
    const across = side / size;
    const values = { row: Math.floor(patch / across) + 1, column: (patch % across) + 1 };
    return t("named", { ...values, thing: shown(patch, size) });
  }

  /** How many tokens the picture became, and how large the table of scores is. */
  function tokens({ kind, patch_size: size }) {
    const across = side / size;
    const all = across * across;
    const byWord = kind === "word";
    const asking = byWord ? words.length : all;
    const values = { side, across, tokens: count(all), asking, cells: count(asking * all) };
    const lines = [t("became", values), t(byWord ? "cross" : "self", values)];
    const widest = Math.max(...patch_sizes);
    if (size < widest) {
      const times = (widest / size) ** 2;
      const by = { times, squared: times * times, widest };
      lines.push(t(byWord ? "grew_cross" : "grew_self", by));
    }
    return lines.join(" ");
  }

  /** Where whoever asks looks. */
  function seen({ kind, patch_size: size, asks, weights }) {
    const most = Math.max(...weights);
    const tops = weights.map((_, patch) => patch).filter((patch) => most - weights[patch] < SAME);
    const others = tops.filter((patch) => patch !== asks);
    const itself = others.length < tops.length;
    const values = {
      who:
        kind === "word"
          ? t("who_word", { word: t(`word_${asks}`) })
          : t("who_patch", { patch: named(asks, size) }),
      weight: showWeight(most),
      even: showWeight(1 / weights.length),
      others: others.length,
      top: others.length ? named(others[0], size) : "",
    };
    const many = ["none", "one"][others.length] ?? "many";
    const lines = [itself ? t(`itself_and_${many}`, values) : t(`gives_${many}`, values)];
    if (kind !== "word" && !itself) lines.push(t("keeps", { own: showWeight(weights[asks]) }));
    lines.push(t("even", values));
    return lines.join(" ");
  }

  /** @returns {string} the name of what to try next */
  function suggestion({ kind, patch_size: size }) {
    if (kind !== "colour") return `try_${kind}`;
    return size === Math.max(...patch_sizes) ? "try_cut" : "try_patch";
  }
  return { tokens, seen, suggestion };
}
