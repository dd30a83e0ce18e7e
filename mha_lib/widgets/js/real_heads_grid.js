/** All heads of a model as thumbnails: a row for each layer, a button for each head. */

import { keptTokens, weightsOf, without } from "./real_heads_data.js";
import { freshId, make } from "./ui.js";

// A picture has no CSS colours in it; the style sheet makes it lighter on dark paper.
const INK = [0, 114, 178];

/** Draw weights as a picture, a pixel for each: the deeper, the more. */
function draw(canvas, weights) {
  const count = weights.length;
  if (canvas.width !== count) canvas.width = canvas.height = count;
  const pixels = new ImageData(count, count);
  weights.flat().forEach((weight, i) => pixels.data.set([...INK, Math.round(255 * weight)], 4 * i));
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

/**
 * @param {(key: string, values?: object) => string} t
 * @param {{layers: number, heads: number}} model
 * @param {(traits: object) => void} change
 */
export function gridOfHeads(t, { layers, heads }, change) {
  const hint = freshId("hint");
  const canvases = [];
  const buttons = Array.from({ length: layers * heads }, (_, place) => {
    const [layer, head] = [Math.floor(place / heads), place % heads];
    const canvas = make("canvas", { "aria-hidden": "true" });
    canvases.push(canvas);
    const name = t("head_name", { layer, head });
    return make("button", { type: "button", "aria-label": name, title: name, onclick: () => change({ layer, head }) }, canvas);
  });
  const rows = Array.from({ length: layers }, (_, layer) =>
    make(
      "div",
      { class: "mha-layer" },
      make("span", { "aria-hidden": "true" }, String(layer)),
      ...buttons.slice(layer * heads, (layer + 1) * heads),
    ),
  );
  const grid = make(
    "div",
    { class: "mha-thumbs", role: "toolbar", "aria-label": t("all_heads"), "aria-describedby": hint, style: `--mha-count: ${heads}`, onkeydown },
    ...rows,
  );
  const element = make("div", {}, grid, make("p", { class: "mha-try", id: hint }, t("all_hint")));

  function onkeydown(event) {
    const here = buttons.indexOf(event.target);
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads, ArrowDown: heads, Home: -here, End: buttons.length - 1 - here };
    const there = here + steps[event.key];
    if (!(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    if (!buttons[there]) return;
    change({ layer: Math.floor(there / heads), head: there % heads });
    buttons[there].focus();
  }

  let drawn = "";
  let next = 0; // the frame in which the pictures are drawn
  function show({ bytes, sentence, layer, head, words_only }) {
    const chosen = layer * heads + head;
    buttons.forEach((button, place) => {
      button.setAttribute("aria-pressed", String(place === chosen));
      button.tabIndex = place === chosen ? 0 : -1;
    });
    // Another head changes none of the pictures.
    const now = `${sentence.name} ${words_only}`;
    if (now === drawn) return;
    drawn = now;
    const kept = keptTokens(sentence, words_only);
    // They are many: what was chosen answers at once, and these follow.
    cancelAnimationFrame(next);
    next = requestAnimationFrame(() =>
      canvases.forEach((canvas, place) => draw(canvas, without(weightsOf(bytes, place, sentence.tokens.length), kept).shown)),
    );
  }
  return { element, show };
}
