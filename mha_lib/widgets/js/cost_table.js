/** The cost explorer's table: each part at N, its share, and what becomes of it at twice N. */

import { WORK, showBytes, showFlops, showGrowth, showShare, together } from "./cost_numbers.js";
import { lineSample } from "./cost_picture.js";
import { make, rich, showCount } from "./ui.js";

/** @param {(key: string, values?: object) => string} t @param {string} language */
export function costTable(t, language) {
  const head = make("tr");
  const [work, memory] = [make("tbody"), make("tbody")];
  const element = make("table", { class: "mha-costs" }, make("thead", {}, head), work, memory);

  function row(name, amount, share, growth) {
    const sample = lineSample(name);
    const cells = [amount, share, showGrowth(growth, language)].map((text) => make("td", {}, text));
    return make(
      "tr",
      { "data-part": name, "data-faster": growth > 2 },
      make("th", { scope: "row" }, ...(sample ? [sample] : []), rich(t(`part_${name}`))),
      ...cells,
    );
  }

  /** @param {import("./cost_explorer.js").Result} result */
  function show({ seq, now, doubled, weight_bytes }) {
    const heads = [t("part"), t("at", { seq: showCount(seq, language) }), t("share"), t("twice")];
    head.replaceChildren(...heads.map((text) => make("th", { scope: "col" }, rich(text))));
    const all = together(now);
    work.replaceChildren(
      ...WORK.map((name) =>
        row(name, showFlops(now[name], language), showShare(now[name] / all, language), doubled[name] / now[name]),
      ),
      row("together", showFlops(all, language), showShare(1, language), together(doubled) / all),
    );
    const bytes = (name) => row(name, showBytes(now[name], language), "", doubled[name] / now[name]);
    memory.replaceChildren(
      bytes("score_bytes"),
      ...(now.kv_cache_bytes ? [bytes("kv_cache_bytes")] : []),
      row("weight_bytes", showBytes(weight_bytes, language), "", 1),
    );
  }
  return { element, show };
}
