/**
 * A trained Vision Transformer reads a digit: where does each of its heads look?
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Result
 * @property {number} digit @property {number} query what it is the result of
 * @property {number[][][]} weights (layers, h, N), of that query; the class token first
 * @property {number[]} chances (10), of the ten digits
 */

import { softmax } from "./attention.js";
import { runBlocks } from "./blocks.js";
import { patchGrid, wholePicture } from "./patch_grid.js";
import { buttonPicker } from "./pickers.js";
import { add, linear, unpack } from "./trained.js";
import { changer, freshId, liveLine, make, rich, root, say, showWeight, translator } from "./ui.js";

const BRIGHTEST = 16; // pixels go from 0, paper, to 16, ink
const INK = Array.from({ length: BRIGHTEST + 1 }, (_, shade) => Array(3).fill(1 - shade / BRIGHTEST));

/** @type {WeakMap<object, object>} each packed model, unpacked once */
const unpacked = new WeakMap();

/**
 * What DigitHeads.compute does in Python, with this page's own attention.
 * @param {{recipe: object, digit: number, query: number}} state
 * @returns {Result}
 */
export function compute({ recipe, digit, query }) {
  if (!unpacked.has(recipe)) unpacked.set(recipe, unpack(recipe.model));
  const model = unpacked.get(recipe);
  const rows = patchRows(recipe.digits[digit].pixels, recipe.patch_size); // (16, p * p)
  const patches = linear(rows, model["patches.projection.weight"], model["patches.projection.bias"]);
  const tokens = [model["patches.class_token"][0], ...patches]; // (N, d_model)
  const { x, weights } = runBlocks(model, "encoder.", add(tokens, model["encoder.places.weight"]), {
    numLayers: recipe.num_layers,
    numHeads: recipe.num_heads,
  });
  const [logits] = linear([x[0]], model["head.weight"], model["head.bias"]);
  const asked = weights.map((heads) => heads.map((map) => map[query]));
  return { digit, query, weights: asked, chances: softmax(logits) };
}

/** The numbers of each patch in a row. @param {string[]} pixels @param {number} p */
function patchRows(pixels, p) {
  const places = Array.from({ length: pixels.length / p }, (_, place) => place * p);
  return places.flatMap((top) =>
    places.map((left) =>
      pixels
        .slice(top, top + p)
        .flatMap((line) => [...line.slice(left, left + p)].map((shade) => parseInt(shade, 36) / BRIGHTEST)),
    ),
  );
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "digit_heads");
  const recipe = model.get("recipe");
  const change = changer(model);
  const across = recipe.digits[0].pixels.length / recipe.patch_size;
  const range = (count) => Array.from({ length: count }, (_, i) => i);

  const titleId = freshId("title");
  const tryThis = make("p", { class: "mha-try" });
  const digits = buttonPicker({
    label: t("digits"),
    values: range(recipe.digits.length),
    write: (i) => {
      const { shows: digit, wrong } = recipe.digits[i];
      return wrong ? t("digit_wrong", { digit }) : String(digit);
    },
    choose: (digit) => change({ digit }),
  });
  const heads = buttonPicker({
    label: t("heads"),
    values: range(recipe.num_layers * recipe.num_heads),
    write: (i) => t("head", { layer: Math.floor(i / recipe.num_heads) + 1, head: (i % recipe.num_heads) + 1 }),
    choose: (i) => change({ layer: Math.floor(i / recipe.num_heads), head: i % recipe.num_heads }),
  });
  const classToken = buttonPicker({
    label: t("asks"),
    values: [0],
    write: () => t("class_token"),
    choose: (query) => change({ query }),
  });
  const hint = make("p", { class: "mha-try", id: freshId("hint") }, t("hint"));
  const gridPlace = make("div", { class: "mha-grid-place" });
  const picturePlace = make("div");
  const [answer, seen] = [make("p", { class: "mha-verdict" }), liveLine()];
  const demo = root(
    "heads mha-patches mha-digits",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    make("div", { class: "mha-row" }, digits.element, heads.element, classToken.element),
    make("div", { class: "mha-both" }, gridPlace, make("div", {}, picturePlace, answer, seen, hint)),
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  // Another digit gets another picture; else the focus would be lost.
  let [grid, drawnFor] = [null, -1];

  function draw() {
    /** @type {Result} */
    const { digit, query, weights, chances } = model.get("result");
    const [layer, head] = [model.get("layer"), model.get("head")];
    const { pixels, shows, wrong } = recipe.digits[digit];
    if (drawnFor !== digit) {
      const picture = { pixels, colours: INK };
      const choose = ([row, column]) =>
        change({ query: 1 + (row / recipe.patch_size) * across + column / recipe.patch_size });
      grid = patchGrid(t, picture, recipe.patch_size, { describedBy: hint.id, choose });
      gridPlace.replaceChildren(grid.element);
      picturePlace.replaceChildren(wholePicture((key) => t(key, { digit: shows }), picture));
      drawnFor = digit;
    }
    const row = weights[layer][head];
    grid.show({ asks: query - 1, weights: row.slice(1) });
    digits.show(digit);
    heads.show(layer * recipe.num_heads + head);
    classToken.show(query);
    demo.style.setProperty("--mha-head", `var(--mha-head-${layer * recipe.num_heads + head})`);
    const named = chances.indexOf(Math.max(...chances));
    const verdict = { named, chance: showWeight(chances[named]), digit: shows };
    answer.replaceChildren(rich(t(named === shows ? "right" : "wrong", verdict)));
    say(seen, rich(`${sentence(row, layer, head, query)} ${t("even")}`));
    const next = query > 0 ? "try_patch" : wrong ? "try_wrong" : "try_heads";
    tryThis.replaceChildren(rich(t(next, { layer: layer + 1 })));
  }

  const placed = (patch) => ({ row: Math.floor(patch / across) + 1, column: (patch % across) + 1 });

  function sentence([own, ...patches], layer, head, query) {
    const who = query ? t("who_patch", placed(query - 1)) : t("who_class");
    const best = patches.indexOf(Math.max(...patches));
    const all = patches.reduce((sum, weight) => sum + weight, 0);
    const weight = showWeight(patches[best]);
    const values = { layer: layer + 1, head: head + 1, who, weight, patches: showWeight(all), rest: showWeight(own) };
    return t("seen", { ...values, ...placed(best) });
  }

  const events = ["result", "layer", "head"].map((name) => `change:${name}`);
  for (const event of events) model.on(event, draw);
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

export default { render };
