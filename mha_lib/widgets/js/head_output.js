/** The output for one word: what each head contributes, feature by feature, and the sum. */

import { make, rich, scrollBox, showWeight } from "./ui.js";

/**
 * @param {(key: string, values?: object) => string} t
 * @param {{names: string[], meanings: string[], saying: {output(now: object): string}}} parts
 */
export function outputOfOneWord(t, { names, meanings, saying }) {
  const caption = make("caption");
  const story = make("p", { class: "mha-try" });
  const colour = (head) => `--mha-head: var(--mha-head-${head})`;
  const headers = names.map((name, head) =>
    make(
      "th",
      { scope: "col", style: colour(head) },
      make("span", { class: "mha-swatch", "aria-hidden": "true" }),
      name,
    ),
  );
  const lines = meanings.map((meaning) => {
    const terms = names.map(() => make("td"));
    const pieces = names.map((_, head) => make("span", { style: colour(head) }));
    const sum = make("strong");
    const bar = make("span", { class: "mha-bar", "aria-hidden": "true" }, ...pieces);
    const total = make("td", {}, make("div", { class: "mha-sum" }, sum, bar));
    const row = make("tr", {}, make("th", { scope: "row" }, t(`meaning_${meaning}`)), ...terms, total);
    return { row, terms, pieces, sum };
  });
  const element = make(
    "div",
    {},
    make("p", { class: "mha-subtitle" }, t("out_title")),
    make("p", { class: "mha-try" }, rich(t("out_how"))),
    scrollBox(
      t("out_title"),
      make(
        "table",
        { class: "mha-output" },
        caption,
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, t("feature")), ...headers, make("th", { scope: "col" }, t("sum")))),
        make("tbody", {}, ...lines.map((line) => line.row)),
      ),
    ),
    story,
  );

  function show(now) {
    const { words, language, query, contributions, output } = now;
    // W_O writes into the meaning block, the second of three.
    const first = meanings.length;
    const longest = Math.max(1, ...output[query]);
    lines.forEach(({ row, terms, pieces, sum }, feature) => {
      const shares = contributions.map((head) => head[query][first + feature]);
      shares.forEach((share, head) => {
        terms[head].textContent = showWeight(share);
        pieces[head].style.width = `${(100 * share) / longest}%`;
      });
      const total = output[query][first + feature];
      sum.textContent = showWeight(total);
      row.dataset.empty = String(total < 0.005);
    });
    caption.replaceChildren(rich(t("out_caption", { word: words[query] }), language));
    story.replaceChildren(rich(saying.output(now), language));
  }
  return { element, show };
}
