/**
 * Arcs from one word to every word; an arc's width is its weight.
 *
 * The widths stand side by side where the arcs leave the word, so they always fill the same
 * base there: the weights sum to 1. The picture says nothing that the table of weights
 * beside it does not say, so it is hidden from screen readers.
 */

import { svg } from "./ui.js";

/**
 * Where each arc leaves the query word: its middle, in units of the whole base, from -0.5
 * to 0.5. Near words stand outside and far ones inside, so that no two arcs cross.
 * @param {number} query
 * @param {number[]} weights
 * @returns {number[]}
 */
export function feet(query, weights) {
  const left = weights.map((_, j) => j).filter((j) => j < query);
  const right = weights.map((_, j) => j).filter((j) => j > query);
  const order = [...left.reverse(), query, ...right.reverse()];
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const middles = [];
  let edge = -total / 2;
  for (const j of order) {
    middles[j] = edge + weights[j] / 2;
    edge += weights[j];
  }
  return middles;
}

/**
 * @param {number} count how many words stand below, in columns of equal width
 * @returns {{element: Element, show(query: number, weights: number[]): void, stop(): void}}
 */
export function arcs(count) {
  const paths = Array.from({ length: count }, () => svg("path", { class: "mha-arc" }));
  const element = svg("svg", { class: "mha-arcs", "aria-hidden": "true", focusable: "false" });
  element.append(...paths);
  let shown = null;
  let [width, height] = [0, 0];

  function draw() {
    if (!shown || width === 0) return;
    const { query, weights } = shown;
    const column = width / count;
    const base = Math.min(32, column * 0.5);
    const middle = (word) => (word + 0.5) * column;
    const starts = feet(query, weights);
    const farthest = Math.max(query, count - 1 - query);
    paths.forEach((path, j) => {
      const start = middle(query) + starts[j] * base;
      const distance = Math.abs(j - query);
      path.setAttribute(
        "d",
        distance === 0
          ? loop(start, height, base)
          : arch(start, middle(j), height, (height - base) * (0.25 + (0.75 * distance) / farthest)),
      );
      path.style.strokeWidth = `${weights[j] * base}px`;
    });
  }

  // The drawing is in pixels, so it follows the width it is given. To ask for it at each drawing
  // would have the whole demo laid out as many times as there are drawings in it.
  const resized = new ResizeObserver(([{ contentRect }]) => {
    ({ width, height } = contentRect);
    draw();
  });
  resized.observe(element);

  function show(query, weights) {
    shown = { query, weights };
    draw();
  }
  return { element, show, stop: () => resized.disconnect() };
}

/** A curve that rises `rise` above the ground between two places. */
function arch(from, to, ground, rise) {
  // A cubic reaches three quarters of the way to its two control points.
  const top = ground - (rise * 4) / 3;
  return `M${from},${ground} C${from},${top} ${to},${top} ${to},${ground}`;
}

/** A drop over one word: it looks at itself. */
function loop(at, ground, base) {
  const [side, top] = [base * 1.5, ground - base * 2.4];
  return `M${at},${ground} C${at - side},${top} ${at + side},${top} ${at},${ground}`;
}
