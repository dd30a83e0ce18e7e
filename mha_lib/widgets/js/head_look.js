/** Where one word looks in one head: arcs, the words to choose from, the row of weights. */

import { arcs } from "./arcs.js";
import { showInCell } from "./heatmap.js";
import { arrowKeys, freshId, make, rich } from "./ui.js";

/**
 * @param {(key: string, values?: object) => string} t
 * @param {{sentence: {words: string[], language: string}, names: string[],
 *   change: (traits: object) => void}} parts
 */
export function lookOfOneHead(t, { sentence: { words, language }, names, change }) {
  const hint = freshId("hint");
  const drawing = arcs(words.length);
  const buttons = words.map((word, query) =>
    make("button", { type: "button", lang: language, onclick: () => change({ query }) }, word),
  );
  const toolbar = make(
    "div",
    { class: "mha-queries", role: "toolbar", "aria-label": t("words"), "aria-describedby": hint, onkeydown: arrowKeys(() => buttons, (query) => change({ query })) },
    ...buttons,
  );
  const caption = make("caption");
  const cells = words.map(() => make("td", { class: "mha-weight" }));
  // The buttons right above show the words already.
  const headers = words.map((word) =>
    make("th", { scope: "col" }, make("span", { class: "mha-hidden", lang: language }, word)),
  );
  const table = make(
    "table",
    { class: "mha-weights-row" },
    caption,
    make("thead", {}, make("tr", {}, ...headers)),
    make("tbody", {}, make("tr", {}, ...cells)),
  );
  const columns = make("div", { class: "mha-columns" }, drawing.element, toolbar, table);
  const element = make(
    "div",
    {},
    make("div", { class: "mha-scroll" }, columns),
    make("p", { class: "mha-try", id: hint }, t("words_hint")),
  );

  function show({ head, query, weights }) {
    element.style.setProperty("--mha-head", `var(--mha-head-${head})`);
    const row = weights[head][query];
    drawing.show(query, row);
    cells.forEach((cell, j) => showInCell(cell, row[j]));
    buttons.forEach((button, j) => {
      button.setAttribute("aria-pressed", String(j === query));
      // One stop for the Tab key; the arrow keys go on from there.
      button.tabIndex = j === query ? 0 : -1;
    });
    const values = { word: words[query], number: head + 1, name: names[head] };
    caption.replaceChildren(rich(t("row_caption", values), language));
  }
  return { element, show, stop: drawing.stop };
}
