/**
 * Lines from the words of one sentence to those of another; a line's width is its weight.
 *
 * The picture says nothing that the table of weights beside it does not say, so it is hidden
 * from screen readers, and the table has the buttons. A click on a word here is a short cut.
 */

import { make, svg } from "./ui.js";

/** How wide a line of weight 1 is, in pixels. */
const WIDEST = 14;

/**
 * @param {object} parts
 * @param {{words: string[], language: string}} parts.asking the sentence below
 * @param {{words: string[], language: string}} parts.answering the sentence above
 * @param {(query: number) => void} parts.choose
 * @returns {{element: HTMLElement, show(weights: number[][], query: number): void}}
 */
export function links({ asking, answering, choose }) {
  // Places are shares of the width, so that nothing has to be drawn anew when it changes.
  const drawing = svg("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none" });
  const middle = (place, { words }) => (place + 0.5) / words.length;
  const lines = asking.words.map((_, i) => {
    const paths = answering.words.map((_, j) => {
      const [from, to] = [middle(i, asking), middle(j, answering)];
      const d = `M${from},1 C${from},.5 ${to},.5 ${to},0`;
      return svg("path", { d, "vector-effect": "non-scaling-stroke" });
    });
    return { group: svg("g", {}, ...paths), paths };
  });
  const answers = answering.words.map((word) => make("span", {}, word));
  const asks = asking.words.map((word, i) => make("span", { onclick: () => choose(i) }, word));
  const row = (spans, { language }) =>
    make("div", { class: "mha-link-words", lang: language, style: `--mha-count: ${spans.length}` }, ...spans);
  const element = make(
    "div",
    { class: "mha-links", "aria-hidden": "true" },
    row(answers, answering),
    drawing,
    row(asks, asking),
  );

  function show(weights, query) {
    lines.forEach(({ group, paths }, i) => {
      group.toggleAttribute("data-selected", i === query);
      paths.forEach((path, j) => (path.style.strokeWidth = `${weights[i][j] * WIDEST}px`));
    });
    // What is drawn last lies on top.
    drawing.replaceChildren(...lines.filter((_, i) => i !== query).map(({ group }) => group), lines[query].group);
    asks.forEach((word, i) => word.toggleAttribute("data-selected", i === query));
  }
  return { element, show };
}
