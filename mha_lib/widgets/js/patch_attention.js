/**
 * A picture as patches: a patch or a word asks, all patches answer.
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Result
 * @property {"colour"|"place"|"word"} kind
 * @property {number} patch_size what it is the result of: in Jupyter it comes after the choice
 * @property {number|string} asks the number of the patch that asks, or the word
 * @property {number[]} scores (N,), the patches row by row
 * @property {number[]} weights (N,)
 */

import { attention, matmul } from "./attention.js";
import { patchGrid, wholePicture } from "./patch_grid.js";
import { patchSayings } from "./patch_sayings.js";
import { buttonPicker } from "./pickers.js";
import { changer, freshId, liveLine, make, rich, root, say, translator } from "./ui.js";

/**
 * What PatchAttention.compute does in Python, with this page's own attention.
 * @param {{recipe: object, kind: string, patch_size: number, pixel: number[], word: string}} state
 * @returns {Result}
 */
export function compute({ recipe, kind, patch_size, pixel, word }) {
  const x = tokens(recipe, patch_size); // (N, d_model)
  const [row, column] = pixel.map((place) => Math.floor(place / patch_size));
  const patch = row * (recipe.pixels.length / patch_size) + column;
  const asking = kind === "word" ? wordToken(recipe, word) : x[patch]; // (d_model,)
  const { W_Q, W_K } = recipe.matrices[kind];
  const { scores, weights } = attention(matmul([asking], W_Q), matmul(x, W_K), x);
  const asks = kind === "word" ? word : patch;
  return { kind, patch_size, asks, scores: scores[0], weights: weights[0] };
}

/** Each patch's mean colour, measured from the middle, and its place: (N, d_model). */
function tokens({ pixels, colours, middle }, size) {
  const across = pixels.length / size;
  const places = Array.from({ length: across }, (_, place) => place);
  return places.flatMap((row) =>
    places.map((column) => {
      const inside = pixels
        .slice(row * size, (row + 1) * size)
        .flatMap((line) => [...line.slice(column * size, (column + 1) * size)]);
      const mean = (channel) =>
        inside.reduce((sum, digit) => sum + colours[Number(digit)][channel], 0) / inside.length;
      const colour = middle.map((zero, channel) => mean(channel) - zero);
      const hands = [row, column].map((place) => ((place + 0.5) / across) * Math.PI);
      return [...colour, ...hands.flatMap((angle) => [Math.cos(angle), Math.sin(angle)])];
    }),
  );
}

/** The colour of what the word names, and no place: (d_model,). */
function wordToken({ words, colours, middle }, word) {
  const colour = colours[words.indexOf(word)];
  return [...colour.map((number, channel) => number - middle[channel]), 0, 0, 0, 0];
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "patch_attention");
  const recipe = model.get("recipe");
  const saying = patchSayings(t, recipe, model.get("language"));
  const change = changer(model);

  const titleId = freshId("title");
  const sizes = buttonPicker({
    label: t("sizes"),
    values: recipe.patch_sizes,
    write: (size) => t("size", { size }),
    choose: (patch_size) => change({ patch_size }),
  });
  const kinds = buttonPicker({
    label: t("kinds"),
    values: recipe.kinds,
    write: (kind) => t(`kind_${kind}`),
    choose: (kind) => change({ kind }),
  });
  const words = buttonPicker({
    label: t("words"),
    values: recipe.words,
    write: (word) => t(`word_${word}`),
    choose: (word) => change({ word }),
  });
  const hint = make("p", { class: "mha-try", id: freshId("hint") }, t("hint"));
  const tryThis = make("p", { class: "mha-try" });
  const gridPlace = make("div", { class: "mha-grid-place" });
  const tokensSeen = liveLine();
  const seen = liveLine();

  const demo = root(
    "heads mha-patches",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    make("div", { class: "mha-row" }, sizes.element, kinds.element, words.element),
    make(
      "div",
      { class: "mha-both" },
      gridPlace,
      make("div", {}, wholePicture(t, recipe), tokensSeen, seen, hint),
    ),
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  // The grid has one part per patch, so other patches get a new one; else the focus would be lost.
  let [grid, drawnFor] = [null, ""];

  function draw() {
    /** @type {Result} */
    const now = model.get("result");
    const byWord = now.kind === "word";
    const needed = `${now.patch_size} ${byWord}`;
    if (drawnFor !== needed) {
      grid = patchGrid(t, recipe, now.patch_size, {
        describedBy: hint.id,
        choose: byWord ? null : (pixel) => change({ pixel }),
      });
      gridPlace.replaceChildren(grid.element);
      drawnFor = needed;
    }
    grid.show(now);
    sizes.show(now.patch_size);
    kinds.show(now.kind);
    words.show(model.get("word"));
    words.element.hidden = !byWord;
    hint.hidden = byWord;
    tryThis.replaceChildren(rich(t(saying.suggestion(now))));
    say(tokensSeen, rich(saying.tokens(now)));
    say(seen, rich(saying.seen(now)));
  }

  const events = ["result", "word"].map((name) => `change:${name}`);
  for (const event of events) model.on(event, draw);
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

export default { render };
