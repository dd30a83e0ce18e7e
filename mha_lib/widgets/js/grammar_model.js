/**
 * The model of the made-up language, as `mha_lib.experiments.grammar` has it: one attention
 * layer without an MLP, which names three words at each token.
 *
 * @typedef {import("./attention.js").Matrix} Matrix
 */

import { attention, softmax } from "./attention.js";
import { add, columns, layerNorm, linear } from "./trained.js";

const MEMBERS = 4; // words of a class
const GOVERNORS = [1, 0, 1, 1, 5, 4, 5, 5]; // the marker that governs each marker

/**
 * Where the word stands that each relation asks for: previous, partner, governor.
 * @param {number[]} words (N) @param {number[]} markers (N)
 * @returns {number[][]} (N, 3)
 */
export function relate(words, markers) {
  const kind = (word) => Math.floor(word / MEMBERS);
  return words.map((word, i) => [
    Math.max(i - 1, 0),
    words.findIndex((other, j) => j !== i && kind(other) === kind(word)),
    markers.indexOf(GOVERNORS[markers[i]]),
  ]);
}

/**
 * Let the model read a sentence.
 * @param {Record<string, any>} model its numbers, unpacked
 * @param {number[]} words (N) @param {number[]} markers (N)
 * @param {boolean[]} heads which heads are on
 * @returns {{weights: Matrix[], guesses: number[][], chances: number[][]}}
 *   weights (h, N, N); guesses and chances (N, 3)
 */
export function read(model, words, markers, heads) {
  const named = (name) => [model[`${name}.weight`], model[`${name}.bias`]];
  const rows = (table, numbers) => numbers.map((number) => model[`${table}.weight`][number]);
  const x = add(add(rows("word", words), rows("marker", markers)), model["place.weight"]); // (N, d_model)
  const seen = layerNorm(x, ...named("norm"));
  const [q, k, v] = ["q", "k", "v"].map((each) => linear(seen, ...named(`attention.${each}_proj`)));
  const width = q[0].length / heads.length; // d_k
  const views = heads.map((_, head) =>
    attention(...[q, k, v].map((each) => columns(each, head * width, (head + 1) * width))),
  );
  // A head that is off brings nothing.
  const concat = words.map((_, i) =>
    views.flatMap(({ head_out }, head) => head_out[i].map((number) => (heads[head] ? number : 0))),
  ); // (N, h * d_k)
  const after = add(x, linear(concat, ...named("attention.out_proj")));
  const logits = linear(layerNorm(after, ...named("last_norm")), ...named("head")); // (N, 3 * W)

  const chances = logits.map((row) => {
    const each = row.length / 3;
    return [0, 1, 2].map((relation) => softmax(row.slice(relation * each, (relation + 1) * each)));
  }); // (N, 3, W)
  const best = chances.map((row) => row.map((list) => list.indexOf(Math.max(...list))));
  return {
    weights: views.map(({ weights }) => weights),
    guesses: best,
    chances: chances.map((row, i) => row.map((list, relation) => list[best[i][relation]])),
  };
}
