/**
 * A trained model's numbers, as `trained.py` packs them, and the layers that are made of them.
 *
 * @typedef {import("./attention.js").Matrix} Matrix
 * @typedef {Record<string, {shape: number[], step: number, data: string}>} Packed
 */

import { dot } from "./attention.js";

/**
 * The numbers of every parameter: a list for a vector, rows for whatever has more axes.
 * @param {Packed} packed
 * @returns {Record<string, any>}
 */
export function unpack(packed) {
  return Object.fromEntries(
    Object.entries(packed).map(([name, { shape, step, data }]) => {
      const counts = Int8Array.from(atob(data), (letter) => letter.charCodeAt(0));
      const flat = Array.from(counts, (count) => count * step);
      if (shape.length === 1) return [name, flat];
      const columns = shape.at(-1);
      return [name, Array.from({ length: flat.length / columns }, (_, i) => flat.slice(i * columns, (i + 1) * columns))];
    }),
  );
}

/**
 * What `nn.Linear` computes: x W^T + b.
 * @param {Matrix} x (N, in) @param {Matrix} weight (out, in) @param {number[]} [bias] (out)
 * @returns {Matrix} (N, out)
 */
export function linear(x, weight, bias) {
  return x.map((row) => weight.map((each, i) => dot(row, each) + (bias ? bias[i] : 0)));
}

/**
 * What `nn.LayerNorm` computes: each row gets mean 0 and variance 1, then a scale and a shift.
 * @param {Matrix} x (N, d) @param {number[]} weight (d) @param {number[]} bias (d)
 * @returns {Matrix} (N, d)
 */
export function layerNorm(x, weight, bias) {
  return x.map((row) => {
    const mean = row.reduce((sum, number) => sum + number, 0) / row.length;
    const variance = row.reduce((sum, number) => sum + (number - mean) ** 2, 0) / row.length;
    const shrink = 1 / Math.sqrt(variance + 1e-5);
    return row.map((number, i) => (number - mean) * shrink * weight[i] + bias[i]);
  });
}

/** Two matrices added, number by number. @param {Matrix} a @param {Matrix} b @returns {Matrix} */
export function add(a, b) {
  return a.map((row, i) => row.map((number, j) => number + b[i][j]));
}

/** Columns `start` to `end`. @param {Matrix} matrix @returns {Matrix} */
export function columns(matrix, start, end) {
  return matrix.map((row) => row.slice(start, end));
}

/**
 * Turn each row by angles that grow with its place, two features at a time.
 * @param {Matrix} x (N, d_k) @returns {Matrix}
 */
export function rotary(x) {
  return x.map((row, place) =>
    row.map((number, i) => {
      const pair = i - (i % 2);
      const angle = place * 10000 ** (-pair / row.length);
      const other = i % 2 ? row[i - 1] : -row[i + 1];
      return number * Math.cos(angle) + other * Math.sin(angle);
    }),
  );
}
