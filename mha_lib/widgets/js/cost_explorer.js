/**
 * What grows with N, and which part is it? One pass of a model, counted part by part.
 *
 * @typedef {object} Parts for one number of tokens
 * @property {number} projections FLOPs of the products with W_Q, W_K, W_V and W_O
 * @property {number} products FLOPs of Q K^T and of weights times V
 * @property {number} feed_forward FLOPs
 * @property {number} ends FLOPs on the way into and out of the model
 * @property {number} score_bytes of one layer
 * @property {number} kv_cache_bytes of all layers; 0 for a model that does not generate
 *
 * @typedef {object} Result the inputs that it belongs to, and
 * @property {number} weight_bytes
 * @property {?number} crossing the N at which the products have caught up with the projections
 * @property {Parts} now at N
 * @property {Parts} doubled at twice N
 * @property {{projections: number[], products: number[], feed_forward: number[]}} curve
 *   at each of the recipe's lengths
 */

import { costPicture } from "./cost_picture.js";
import { costSayings } from "./cost_sayings.js";
import { costTable } from "./cost_table.js";
import { selectPicker } from "./pickers.js";
import { changer, freshId, liveLine, make, rich, root, say, scrollBox, showCount, slider, translator } from "./ui.js";

const INPUTS = ["model", "seq", "batch", "num_kv_heads", "sees"];

/**
 * What CostExplorer.compute does in Python by mha_lib.cost.
 * @param {{recipe: object, model: string, seq: number, batch: number, num_kv_heads: number,
 *   sees: ?number}} state
 * @returns {Result}
 */
export function compute({ recipe, model, seq, batch, num_kv_heads, sees }) {
  const sizes = recipe.models[model];
  const [d_model, h, layers] = [sizes.embed_dim, sizes.num_heads, sizes.layers];
  const d_k = d_model / h;
  const bytes = recipe.bytes_per_number;

  /** @returns {Parts} */
  function parts(N) {
    const keys = sees === null ? N : Math.min(N, sees); // that each token sees
    const scores = batch * h * N * keys; // in one layer
    const ends =
      (N - 1) * sizes.patch_dim * d_model + // no patch is the class token's
      sizes.head_out * d_model +
      (sizes.generates ? N * d_model * sizes.vocabulary : 0);
    // A multiplication and its addition are two FLOPs.
    return {
      projections: 2 * batch * N * layers * 2 * d_model * (h + num_kv_heads) * d_k,
      products: 2 * 2 * scores * d_k * layers,
      feed_forward: 2 * batch * N * layers * 2 * d_model * 4 * d_model,
      ends: 2 * batch * ends,
      score_bytes: scores * bytes,
      kv_cache_bytes: sizes.generates ? layers * 2 * batch * num_kv_heads * keys * d_k * bytes : 0,
    };
  }

  // The two are equal where 4 N d_model = 4 (h + h_kv) d_k d_model.
  const crossing = (h + num_kv_heads) * d_k;
  // W_K and W_V, with their biases, get narrower with fewer key heads.
  const saved = layers * 2 * (d_model + 1) * (h - num_kv_heads) * d_k;
  const curve = recipe.lengths.map(parts);
  const line = (name) => curve.map((each) => each[name]);
  return {
    model,
    seq,
    batch,
    num_kv_heads,
    sees,
    weight_bytes: bytes * (recipe.parameters[model] - saved),
    crossing: sees === null || crossing <= sees ? crossing : null,
    now: parts(seq),
    doubled: parts(2 * seq),
    curve: {
      projections: line("projections"),
      products: line("products"),
      feed_forward: line("feed_forward"),
    },
  };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "cost_explorer");
  const recipe = model.get("recipe");
  const language = model.get("language");
  const saying = costSayings(t, recipe, language);
  const change = changer(model);

  const titleId = freshId("title");
  const controls = makeControls(t, recipe, language, change);
  const tryThis = make("p", { class: "mha-try" });
  const table = costTable(t, language);
  const picture = costPicture(t, recipe.lengths, language);
  const seen = liveLine();
  const demo = root(
    "heads mha-cost",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    controls.element,
    seen,
    make("div", { class: "mha-both" }, scrollBox(t("title"), table.element), picture.element),
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  function draw() {
    // The result says what it belongs to: in Jupyter it comes after the choice.
    /** @type {Result} */
    const result = model.get("result");
    controls.show(Object.fromEntries(INPUTS.map((name) => [name, model.get(name)])));
    table.show(result);
    picture.show(result);
    tryThis.replaceChildren(rich(saying.suggestion(result)));
    say(seen, rich(saying.seen(result)));
  }

  const events = ["result", ...INPUTS].map((name) => `change:${name}`);
  for (const event of events) model.on(event, draw);
  draw();
  return () => {
    picture.stop();
    events.forEach((event) => model.off(event, draw));
  };
}

function makeControls(t, recipe, language, change) {
  const number = (count) => showCount(count, language);
  const heads = (model) => recipe.models[model].num_heads;
  let [all, seq] = [0, 0]; // the heads of the model in view, and its N

  const model = selectPicker({
    label: t("model"),
    values: Object.keys(recipe.models),
    write: (name) => t(`model_${name}`),
    choose: (name) => change({ model: name, num_kv_heads: heads(name) }),
  });
  const keyHeads = selectPicker({
    label: rich(t("key_heads")),
    values: [],
    write: (count) => t(count === all ? "key_heads_all" : "key_heads_some", { count, shared: all / count }),
    choose: (num_kv_heads) => change({ num_kv_heads }),
  });
  const sees = selectPicker({
    label: t("sees"),
    values: recipe.sees,
    write: (count) => (count === null ? t("sees_all") : t("sees_some", { count: number(count) })),
    choose: (count) => change({ sees: count }),
  });
  const batch = selectPicker({
    label: rich(t("batch")),
    values: recipe.batches,
    write: String,
    choose: (count) => change({ batch: count }),
  });
  // Its steps are places in a list; from Python a length may come that lies between two of them.
  const length = slider({
    label: rich(t("length")),
    max: recipe.lengths.length - 1,
    write: () => number(seq),
    oninput: (place) => change({ seq: recipe.lengths[place] }),
  });

  function show(now) {
    seq = now.seq;
    if (all !== heads(now.model)) {
      all = heads(now.model);
      const counts = Array.from({ length: all }, (_, i) => all - i);
      keyHeads.offer(counts.filter((count) => all % count === 0));
    }
    model.show(now.model);
    batch.show(now.batch);
    sees.show(now.sees);
    keyHeads.show(now.num_kv_heads);
    length.show(recipe.lengths.findLastIndex((each) => each <= seq));
  }
  const pickers = [model, keyHeads, sees, batch].map((each) => each.element);
  return { element: make("div", {}, make("div", { class: "mha-row" }, ...pickers), length.element), show };
}

export default { render };
