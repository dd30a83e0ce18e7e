/** Weights as tables: each cell shows its weight twice, as depth of colour and as a number. */

import { make, showWeight } from "./ui.js";

/**
 * Show a weight in a cell. Its colour is `--mha-head` of the cell or of an element around it.
 * @param {HTMLElement} cell
 * @param {number} weight between 0 and 1
 */
export function showInCell(cell, weight) {
  cell.style.setProperty("--mha-weight", String(weight));
  cell.textContent = showWeight(weight);
}

/**
 * A table of weights, one row per query and one column per key.
 * @param {object} parts
 * @param {Node|string} parts.caption
 * @param {string} parts.corner what the headers on both sides are, for the corner
 * @param {Node[]} parts.rows the queries
 * @param {Node[]} parts.columns the keys
 * @returns {{element: HTMLElement, show(weights: number[][], selected?: number): void}}
 *   `show` fills the table in; the row `selected` is marked.
 */
export function heatmap({ caption, corner, rows, columns }) {
  const header = make("tr", {}, make("td", { class: "mha-corner" }, corner));
  header.append(...columns.map((column) => make("th", { scope: "col" }, column)));
  const lines = rows.map((row) => {
    const cells = columns.map(() => make("td", { class: "mha-weight" }));
    return { cells, row: make("tr", {}, make("th", { scope: "row" }, row), ...cells) };
  });
  const element = make(
    "table",
    { class: "mha-heatmap" },
    make("caption", {}, caption),
    make("thead", {}, header),
    make("tbody", {}, ...lines.map((line) => line.row)),
  );

  function show(weights, selected) {
    lines.forEach(({ cells, row }, i) => {
      cells.forEach((cell, j) => showInCell(cell, weights[i][j]));
      if (i === selected) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    });
  }
  return { element, show };
}
