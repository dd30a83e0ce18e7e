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
 * A table with a header for each row and each column, and cells to be filled in.
 * @param {object} parts
 * @param {string} parts.look its class
 * @param {Node|string} [parts.caption]
 * @param {Node|string} [parts.corner] what the headers on both sides are, for the corner
 * @param {(Node|string)[]} parts.rows
 * @param {(Node|string)[]} parts.columns
 * @returns {{element: HTMLElement, caption: HTMLElement, cells: HTMLElement[][], mark(row?: number): void}}
 *   `mark` shows which row is the current one, and that no other is.
 */
export function emptyTable({ look, caption = "", corner = "", rows, columns }) {
  const heading = make("caption", {}, caption);
  const header = make("tr", {}, make("td", { class: "mha-corner" }, corner));
  header.append(...columns.map((column) => make("th", { scope: "col" }, column)));
  const cells = rows.map(() => columns.map(() => make("td")));
  const lines = rows.map((row, i) => make("tr", {}, make("th", { scope: "row" }, row), ...cells[i]));
  const parts = [heading, make("thead", {}, header), make("tbody", {}, ...lines)];
  const element = make("table", { class: look }, ...parts);

  function mark(row) {
    lines.forEach((line, i) => {
      if (i === row) line.setAttribute("aria-current", "true");
      else line.removeAttribute("aria-current");
    });
  }
  return { element, caption: heading, cells, mark };
}

/**
 * A table of weights, one row per query and one column per key.
 * @param {object} parts
 * @param {Node|string} parts.caption
 * @param {string} parts.corner what the headers on both sides are, for the corner
 * @param {Node[]} parts.rows the queries
 * @param {Node[]} parts.columns the keys
 * @returns {{element: HTMLElement, show(weights: number[][], selected?: number): void,
 *   mark(selected?: number): void}}
 *   `show` fills the table in; the row `selected` is marked. `mark` does only that.
 */
export function heatmap({ caption, corner, rows, columns }) {
  const { element, cells, mark } = emptyTable({ look: "mha-heatmap", caption, corner, rows, columns });
  for (const cell of cells.flat()) cell.classList.add("mha-weight");

  function show(weights, selected) {
    cells.forEach((row, i) => row.forEach((cell, j) => showInCell(cell, weights[i][j])));
    mark(selected);
  }
  return { element, show, mark };
}
