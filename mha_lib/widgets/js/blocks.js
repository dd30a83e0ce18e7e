/**
 * A trained Transformer's blocks, as `mha_lib.blocks` computes them: pre-norm, attention, an MLP.
 *
 * @typedef {import("./attention.js").Matrix} Matrix
 */

import { attention } from "./attention.js";
import { add, columns, layerNorm, linear, rotary } from "./trained.js";

/** The error function, by a series of positive terms: exact to the last digits or so. @param {number} x */
export function erf(x) {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  let [term, sum] = [size, size];
  for (let n = 1; term > sum * 1e-17; n++) {
    term *= (2 * size * size) / (2 * n + 1);
    sum += term;
  }
  return Math.sign(x) * (2 / Math.sqrt(Math.PI)) * Math.exp(-size * size) * sum;
}

/** What `nn.GELU` computes. @param {number} x */
export function gelu(x) {
  return (x / 2) * (1 + erf(x / Math.SQRT2));
}

/**
 * Send tokens through all blocks and the last norm, as `Stack` does after its embedding.
 * @param {Record<string, any>} model its numbers, unpacked
 * @param {string} stack the name before `.blocks`, with its dot, or nothing
 * @param {Matrix} x (N, d_model)
 * @param {{numLayers: number, numHeads: number, causal?: boolean, rotating?: boolean}} options
 * @returns {{x: Matrix, weights: Matrix[][]}} x (N, d_model); weights (layers, h, N, N)
 */
export function runBlocks(model, stack, x, { numLayers, numHeads, causal = false, rotating = false }) {
  const named = (name) => [model[`${stack}${name}.weight`], model[`${stack}${name}.bias`]];
  const turn = rotating ? rotary : (matrix) => matrix;
  const weights = [];
  for (let layer = 0; layer < numLayers; layer++) {
    const block = `blocks.${layer}`;
    const seen = layerNorm(x, ...named(`${block}.attention_norm`));
    const [q, k, v] = ["q", "k", "v"].map((each) => linear(seen, ...named(`${block}.attention.${each}_proj`)));
    const width = q[0].length / numHeads; // d_k
    const views = Array.from({ length: numHeads }, (_, head) => {
      const own = (matrix) => columns(matrix, head * width, (head + 1) * width);
      return attention(turn(own(q)), turn(own(k)), own(v), { causal });
    });
    const concat = x.map((_, i) => views.flatMap(({ head_out }) => head_out[i])); // (N, h * d_k)
    x = add(x, linear(concat, ...named(`${block}.attention.out_proj`)));
    const inside = linear(layerNorm(x, ...named(`${block}.mlp_norm`)), ...named(`${block}.mlp.0`));
    x = add(x, linear(inside.map((row) => row.map(gelu)), ...named(`${block}.mlp.2`)));
    weights.push(views.map((view) => view.weights));
  }
  return { x: layerNorm(x, ...named("norm")), weights };
}
