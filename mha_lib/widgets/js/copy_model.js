/**
 * The model of `mha_lib.experiments.induction`: layers of causal attention with rotary positions.
 *
 * @typedef {import("./attention.js").Matrix} Matrix
 */

import { attention, softmax } from "./attention.js";
import { add, columns, layerNorm, linear, rotary } from "./trained.js";

/**
 * Let the model read tokens, and predict at each the letter that comes next.
 * @param {Record<string, any>} model its numbers, unpacked
 * @param {number[]} tokens (N)
 * @param {number} numLayers
 * @param {number} numHeads h
 * @returns {{weights: Matrix[][], guesses: number[], chances: number[]}}
 *   weights (layers, h, N, N); guesses and chances (N)
 */
export function predict(model, tokens, numLayers, numHeads) {
  const norm = (x, i) => layerNorm(x, model[`norms.${i}.weight`], model[`norms.${i}.bias`]);
  let x = tokens.map((token) => model["letter.weight"][token]); // (N, d_model)
  const weights = [];
  for (let layer = 0; layer < numLayers; layer++) {
    const seen = norm(x, layer);
    const [q, k, v] = ["q", "k", "v"].map((each) => linear(seen, model[`layers.${layer}.${each}_proj.weight`]));
    const width = q[0].length / numHeads; // d_k
    const views = Array.from({ length: numHeads }, (_, head) => {
      const own = (matrix) => columns(matrix, head * width, (head + 1) * width);
      return attention(rotary(own(q)), rotary(own(k)), own(v), { causal: true });
    });
    const concat = tokens.map((_, i) => views.flatMap(({ head_out }) => head_out[i])); // (N, h * d_k)
    x = add(x, linear(concat, model[`layers.${layer}.out_proj.weight`]));
    weights.push(views.map((view) => view.weights));
  }
  const chances = linear(norm(x, numLayers), model["head.weight"]).map(softmax); // (N, V)
  const guesses = chances.map((row) => row.indexOf(Math.max(...row)));
  return { weights, guesses, chances: chances.map((row, i) => row[guesses[i]]) };
}
