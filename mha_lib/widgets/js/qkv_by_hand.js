/**
 * Queries, keys and values by hand: change a number in a matrix, and follow it to the mix.
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Situation what there is to show
 * @property {number} query the query word, from 0
 * @property {Record<string, number[][]>} matrices W_Q, W_K and W_V, each (d_model, d_k)
 * @property {number[][]} q (N, d_k)
 * @property {number[][]} k (N, d_k)
 * @property {number[][]} v (N, d_k)
 * @property {number[][]} products (N, N): q k^T
 * @property {number[][]} scores (N, N)
 * @property {number[][]} weights (N, N)
 * @property {number[][]} mix (N, d_k)
 * @property {boolean} changed whether it follows from other matrices than what was shown before
 */

import { attention, matmul, transpose } from "./attention.js";
import { lookOfOneHead } from "./head_look.js";
import { numbersFlow } from "./qkv_flow.js";
import { matrixEditors } from "./qkv_matrices.js";
import { changer, freshId, liveLine, make, rich, root, say, showNumber, showWeight, translator } from "./ui.js";

const MATRICES = ["W_Q", "W_K", "W_V"];
const LANGUAGE = "en"; // the words'

/**
 * What QkvByHand.compute does in Python, with this page's own attention.
 * @param {{recipe: object, W_Q: number[][], W_K: number[][], W_V: number[][]}} state
 */
export function compute({ recipe, W_Q, W_K, W_V }) {
  const [q, k, v] = [W_Q, W_K, W_V].map((matrix) => matmul(recipe.x, matrix)); // (N, d_k)
  const { scores, weights, head_out } = attention(q, k, v);
  return { q, k, v, products: matmul(q, transpose(k)), scores, weights, mix: head_out };
}

function render({ model, el }) {
  const t = translator(model, "qkv_by_hand");
  const recipe = model.get("recipe");
  const words = recipe.words;
  const change = changer(model);

  const titleId = freshId("title");
  const look = lookOfOneHead(t, { sentence: { words, language: LANGUAGE }, names: [""], change });
  const seen = liveLine();
  const view = make(
    "div",
    { class: "mha-view", style: `--mha-count: ${words.length}` },
    look.element,
    make("div", {}, seen, make("p", { class: "mha-try" }, rich(t("try"), LANGUAGE))),
  );
  const editors = matrixEditors(t, { recipe, names: MATRICES, language: LANGUAGE, change });
  const flow = numbersFlow(t, { recipe, language: LANGUAGE });
  // The head explorer's look, and a few rules of its own.
  const demo = root(
    "heads mha-qkv",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    view,
    editors.element,
    flow.element,
    make("p", { class: "mha-note" }, t("note")),
  );
  demo.setAttribute("aria-labelledby", titleId);
  demo.style.setProperty("--mha-head", "var(--mha-head-0)"); // there is one head
  el.append(demo);

  const readMatrices = () => Object.fromEntries(MATRICES.map((name) => [name, model.get(name)]));

  // A changed matrix shows in its fields at once. The rest waits for what follows from it.
  function drawFields() {
    editors.show({ query: model.get("query"), matrices: readMatrices() });
  }

  let last = null;
  function draw() {
    const result = model.get("result");
    const matrices = readMatrices();
    const moved = last ? whatMoved(last, result) : [];
    /** @type {Situation} */
    const now = { ...result, query: model.get("query"), matrices, changed: moved.length > 0 };
    look.show({ head: 0, query: now.query, weights: [now.weights] });
    drawFields();
    flow.show(now);
    const lines = [seenText(t, model.get("language"), words, now)];
    if (isSymmetric(now.scores)) lines.push(t("seen_symmetric"));
    if (moved.length === 1) lines.unshift(t(`moved_${moved[0]}`));
    if (moved.length > 1) lines.unshift(t("moved_several"));
    say(seen, rich(lines.join(" "), LANGUAGE));
    last = result;
  }

  const watched = [
    ...["result", "query"].map((name) => [`change:${name}`, draw]),
    ...MATRICES.map((name) => [`change:${name}`, drawFields]),
  ];
  for (const [event, listener] of watched) model.on(event, listener);
  draw();
  return () => {
    look.stop();
    for (const [event, listener] of watched) model.off(event, listener);
  };
}

/** Whose weights stand where, the largest first, and what they mix. */
function seenText(t, language, words, { query, q, weights, mix }) {
  const inWords = new Intl.ListFormat(language, { type: "conjunction" });
  const order = words.map((_, j) => j).sort((a, b) => weights[query][b] - weights[query][a]);
  const items = order.map((j) => t("seen_item", { weight: showWeight(weights[query][j]), word: words[j] }));
  const vector = (numbers) => `[${numbers.map(showNumber).join(", ")}]`;
  return t("seen", {
    word: words[query],
    query: vector(q[query]),
    list: inWords.format(items),
    mix: vector(mix[query]),
  });
}

/** Which of q, k and v are other numbers than before. */
function whatMoved(before, after) {
  const differs = (name) => before[name].flat().some((number, i) => number !== after[name].flat()[i]);
  return ["q", "k", "v"].filter(differs);
}

function isSymmetric(matrix) {
  return matrix.every((row, i) => row.every((number, j) => Math.abs(number - matrix[j][i]) < 1e-9));
}

export default { render };
