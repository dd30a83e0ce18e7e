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
import { freshId, liveLine, make, rich, root, say, scrollBox, showCount, translator } from "./ui.js";

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

  function change(traits) {
    for (const [name, value] of Object.entries(traits)) model.set(name, value);
    model.save_changes();
  }

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
  const picker = (label, onchange) => {
    const select = make("select", { id: freshId("pick"), onchange: () => onchange(select.value) });
    const element = make("div", { class: "mha-picker" }, make("label", { for: select.id }, rich(label)), select);
    return { select, element };
  };
  const option = (value, text) => make("option", { value }, text);

  const model = picker(t("model"), (name) => change({ model: name, num_kv_heads: heads(name) }));
  model.select.append(...Object.keys(recipe.models).map((name) => option(name, t(`model_${name}`))));
  const batch = picker(t("batch"), (count) => change({ batch: Number(count) }));
  batch.select.append(...recipe.batches.map((count) => option(count, String(count))));
  const sees = picker(t("sees"), (count) => change({ sees: count === "all" ? null : Number(count) }));
  const seen = (count) => (count === null ? t("sees_all") : t("sees_some", { count: number(count) }));
  sees.select.append(...recipe.sees.map((count) => option(count ?? "all", seen(count))));
  const keyHeads = picker(t("key_heads"), (count) => change({ num_kv_heads: Number(count) }));
  let drawnFor = null;

  const slider = lengthSlider(t, recipe.lengths, number, (seq) => change({ seq }));
  const pickers = [model, keyHeads, sees, batch].map((each) => each.element);
  return {
    element: make("div", {}, make("div", { class: "mha-row" }, ...pickers), slider.element),
    show(now) {
      if (drawnFor !== now.model) {
        const all = heads(now.model);
        const possible = Array.from({ length: all }, (_, i) => all - i).filter((count) => all % count === 0);
        const text = (count) =>
          count === all ? t("key_heads_all", { count }) : t("key_heads_some", { count, shared: all / count });
        keyHeads.select.replaceChildren(...possible.map((count) => option(count, text(count))));
        drawnFor = now.model;
      }
      model.select.value = now.model;
      batch.select.value = String(now.batch);
      sees.select.value = String(now.sees ?? "all");
      keyHeads.select.value = String(now.num_kv_heads);
      slider.show(now.seq);
    },
  };
}

/** A slider over lengths, each about one and a half times the one before. */
function lengthSlider(t, lengths, number, choose) {
  const id = freshId("length");
  const value = make("output", { for: id });
  const oninput = () => choose(lengths[Number(input.value)]);
  const input = make("input", { type: "range", id, min: 0, max: lengths.length - 1, oninput });
  function show(seq) {
    // From Python a length may come that lies between two of the slider's own.
    const place = lengths.findLastIndex((each) => each <= seq);
    if (Number(input.value) !== place) input.value = String(place);
    input.setAttribute("aria-valuetext", number(seq));
    value.textContent = number(seq);
  }
  const label = make("label", { for: id }, rich(t("length")));
  return { element: make("div", { class: "mha-slider" }, label, input, value), show };
}

export default { render };
