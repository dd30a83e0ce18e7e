/**
 * How can softmax be exact if the scores come a few at a time? One query, twelve keys, taken tile
 * by tile: a running maximum, a running sum, and a running output.
 *
 * @typedef {object} Running what is known after some of the keys
 * @property {number} maximum the largest score
 * @property {number} sum of e to the score less the maximum
 * @property {number} weighted the same sum, each with its value
 * @property {number} output weighted / sum
 *
 * @typedef {object} Result
 * @property {number[]} keys which key comes when, from 0
 * @property {number[]} scores as they come
 * @property {number[]} values as they come
 * @property {number[]} powers e to the score less the maximum when its tile was added
 * @property {number[]} factors one number for each tile, as are those below
 * @property {number[]} maxima
 * @property {number[]} sums
 * @property {number[]} weighted
 * @property {number[]} outputs
 * @property {Running} plain all keys at once
 */

import { attention } from "./attention.js";
import { selectPicker } from "./pickers.js";
import { add, drawRunning, drawStrip, drawWork, show, three } from "./tiled_tables.js";
import { changer, freshId, liveLine, make, rich, root, say, scrollBox, translator } from "./ui.js";

const dot = (one, other) => add(one.map((each, i) => each * other[i]));

/**
 * The running softmax, as FlashAttention has it; TiledSoftmax.compute in Python gets the same by
 * plain attention over the keys so far.
 * @param {{recipe: object, order: string, tile: number}} state
 * @returns {Result}
 */
export function compute({ recipe, order, tile }) {
  const keys = recipe.orders[order];
  const [scores, values] = [recipe.scores, recipe.values].map((all) => keys.map((key) => all[key]));
  const result = { keys, scores, values, powers: [], factors: [], maxima: [], sums: [], weighted: [], outputs: [] };
  let [maximum, sum, weighted] = [-Infinity, 0, 0];
  for (let start = 0; start < keys.length; start += tile) {
    const [s, v] = [scores, values].map((all) => all.slice(start, start + tile)); // (tile)
    const larger = Math.max(maximum, ...s);
    const factor = Math.exp(maximum - larger); // 0 at first, when there is nothing to rescale
    const powers = s.map((score) => Math.exp(score - larger)); // (tile)
    maximum = larger;
    sum = factor * sum + add(powers);
    weighted = factor * weighted + dot(powers, v);
    result.powers.push(...powers);
    result.factors.push(factor);
    result.maxima.push(maximum);
    result.sums.push(sum);
    result.weighted.push(weighted);
    result.outputs.push(weighted / sum);
  }
  const most = Math.max(...scores);
  const total = add(scores.map((score) => Math.exp(score - most)));
  // A query [1] against keys [score]: attention to all of them at once.
  const [k, v] = [scores, values].map((all) => all.map((each) => [each])); // (S, 1) each
  const [[output]] = attention([[1]], k, v, { scale: 1 }).head_out; // (1, 1)
  return { ...result, plain: { maximum: most, sum: total, weighted: output * total, output } };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "tiled_softmax");
  const recipe = model.get("recipe");
  const change = changer(model);

  /** What is to be shown: the result, and which of its tiles, from 0. */
  function now() {
    /** @type {Result} */
    const result = model.get("result");
    const tile = model.get("tile");
    const tiles = result.maxima.length;
    const place = Math.min(model.get("step"), tiles) - 1;
    const keys = result.scores.map((_, i) => i).slice(place * tile, (place + 1) * tile);
    return { result, tile, tiles, place, keys };
  }

  const go = (by) => {
    const { place, tiles } = now();
    const to = place + by;
    if (to >= 0 && to < tiles) change({ step: to + 1 });
  };
  const titleId = freshId("title");
  const controls = makeControls(t, recipe, { change, go });
  const seen = liveLine();
  const tryThis = make("p", { class: "mha-try" });
  const strip = make("table", { class: "mha-strip" });
  const work = make("table", { class: "mha-work" });
  const running = make("table", { class: "mha-running" });
  const verdict = make("p", { class: "mha-verdict", "aria-live": "polite" });
  const demo = root(
    "tiled",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    controls.element,
    scrollBox(t("strip"), strip),
    seen,
    make("div", { class: "mha-tables" }, scrollBox(t("work"), work), scrollBox(t("running"), running)),
    verdict,
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  function draw() {
    const situation = now();
    // A tile size changes before its result is there: what is drawn must fit together.
    if (situation.tiles !== Math.ceil(recipe.scores.length / situation.tile)) return;
    controls.show(situation, model.get("order"));
    strip.replaceChildren(...drawStrip(t, situation));
    work.replaceChildren(...drawWork(t, situation));
    running.replaceChildren(...drawRunning(t, situation));
    say(verdict, rich(compared(t, situation)));
    say(seen, rich(whatHappened(t, situation)));
    tryThis.replaceChildren(rich(t(suggestion(situation, model.get("order")))));
  }

  const watched = ["result", ...["order", "tile", "step"]].map((name) => `change:${name}`);
  for (const event of watched) model.on(event, draw);
  draw();
  return () => watched.forEach((event) => model.off(event, draw));
}

function makeControls(t, recipe, { change, go }) {
  // Both begin anew: another cut has another first tile.
  const tile = selectPicker({
    label: t("tile"),
    values: recipe.tiles,
    write: (size) => (size === 1 ? t("tile_one") : t("tile_of", { size })),
    choose: (size) => change({ tile: size, step: 1 }),
  });
  const order = selectPicker({
    label: t("order"),
    values: Object.keys(recipe.orders),
    write: (name) => t(`order_${name}`),
    choose: (name) => change({ order: name, step: 1 }),
  });
  const previous = make("button", { type: "button", onclick: () => go(-1) }, t("previous"));
  const next = make("button", { type: "button", onclick: () => go(1) }, t("next"));
  return {
    element: make("div", { class: "mha-row" }, tile.element, order.element, make("span", { class: "mha-steps" }, previous, next)),
    show(situation, name) {
      tile.show(situation.tile);
      order.show(name);
      // Not `disabled`: that would throw a keyboard reader's focus away at the last tile.
      previous.setAttribute("aria-disabled", String(situation.place === 0));
      next.setAttribute("aria-disabled", String(situation.place === situation.tiles - 1));
    },
  };
}

/** What was rescaled, and why. */
function whatHappened(t, { result, tile, tiles, place, keys }) {
  const values = { tile: place + 1, tiles };
  const largest = show(Math.max(...keys.map((i) => result.scores[i])));
  const parts = [t("seen_tile", values)];
  if (place === 0) parts.push(t("seen_first", { largest }));
  else {
    const was = show(result.maxima[place - 1]);
    const rescaled = result.factors[place] < 1;
    const factor = show(result.factors[place]);
    parts.push(t(rescaled ? "seen_rescaled" : "seen_kept", { largest, was, factor }));
  }
  const left = result.keys.length - keys.at(-1) - 1;
  const output = three(result.outputs[place]);
  if (left === 1) parts.push(t("seen_one_left", { output }));
  else if (left) parts.push(t("seen_left", { output, left }));
  else {
    const sizes = { held: Math.min(tile, result.keys.length), all: result.keys.length };
    parts.push(t("seen_last", { output, weighted: three(result.weighted[place]), sum: three(result.sums[place]) }));
    if (tiles > 1) parts.push(t(sizes.held === 1 ? "seen_held_one" : "seen_held", sizes));
  }
  return parts.join(" ");
}

/** The running softmax against the plain one. */
function compared(t, { result, tiles, place }) {
  const { maximum, sum, output } = result.plain;
  const plain = t("plain", { maximum: show(maximum), sum: three(sum), output: three(output) });
  if (place < tiles - 1) return `${plain} ${t("not_yet")}`;
  const same =
    show(maximum) === show(result.maxima[place]) &&
    three(sum) === three(result.sums[place]) &&
    three(output) === three(result.outputs[place]);
  return `${plain} ${t(same ? "same" : "differs")}`;
}

/** What is worth trying next. */
function suggestion({ tiles, place, tile }, order) {
  if (tiles === 1) return "try_smaller";
  if (place < tiles - 1) return "try_next";
  if (order === "given") return tile === 4 ? "try_order" : "try_other";
  return order === "rising" ? "try_falling" : "try_given";
}

export default { render };
