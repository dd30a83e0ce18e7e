/**
 * The mask painter: tick who may look at whom, and see what becomes of the weights.
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Situation what there is to show
 * @property {string[]} words with padding at their end
 * @property {number} length how many of them are real words
 * @property {"keep"|"ignore"} reading what a ticked box means
 * @property {"before"|"after"} when the mask is applied, as seen from the softmax
 * @property {boolean[][]} mask (N, N), as it is ticked
 * @property {boolean[][]} keep (N, N), who may look at whom
 * @property {number[][]} scores (N, N)
 * @property {number[][]} weights (N, N)
 * @property {number[]} sums (N)
 * @property {number[]} blind the rows that may look at nothing
 * @property {number[]} leaks the rows that depend on words they may not look at
 * @property {string} pattern one of PATTERNS, or "free"
 * @property {?string} turned the pattern that this mask is turned round
 */

import { attention } from "./attention.js";
import { maskGrid } from "./mask_grid.js";
import { PATTERNS, flipped, keptBy, patternOf } from "./mask_patterns.js";
import { sayings } from "./mask_sayings.js";
import { scoresTable, weightsTable } from "./mask_tables.js";
import { buttonPicker } from "./pickers.js";
import { changer, freshId, liveLine, make, rich, root, say, translator } from "./ui.js";

// Two weights that differ by less are the same: rounding alone makes them differ.
const SAME = 1e-9;

/**
 * What MaskPainter.compute does in Python, with this page's own attention.
 * @param {{recipe: object, length: number, reading: string, when: string, mask: boolean[][]}} state
 */
export function compute({ recipe, length, reading, when, mask }) {
  const keep = reading === "ignore" ? flipped(mask) : mask;
  // Padding has no features, so its queries and keys are zeros.
  const padded = (rows) => rows.map((row, i) => (i < length ? row : row.map(() => 0)));
  const [query, key] = [padded(recipe.queries), padded(recipe.keys)]; // (N, d_k)
  const { scores } = attention(query, key, key); // (N, N)
  const weights = weigh(query, key, keep, when);
  const risen = keep.map((row) => row.map((kept) => (kept ? 0 : 1))); // (N, N)
  const others = weigh(query, key, keep, when, risen);
  const numbers = keep.map((_, i) => i);
  return {
    length,
    keep,
    scores,
    weights,
    sums: weights.map((row) => row.reduce((sum, weight) => sum + weight, 0)),
    blind: numbers.filter((i) => !keep[i].includes(true)),
    leaks: numbers.filter((i) => weights[i].some((weight, j) => Math.abs(weight - others[i][j]) > SAME)),
  };
}

/** The weights, (N, N), with the mask in its right place, or in its wrong one. */
function weigh(query, key, keep, when, bias) {
  if (when === "before") return attention(query, key, key, { mask: keep, bias }).weights;
  const { weights } = attention(query, key, key, { bias });
  return weights.map((row, i) => row.map((weight, j) => (keep[i][j] ? weight : 0)));
}

function render({ model, el }) {
  const t = translator(model, "mask_painter");
  const recipe = model.get("recipe");
  const saying = sayings(t, model.get("language"));
  const change = changer(model);

  const titleId = freshId("title");
  const option = (trait, values) =>
    buttonPicker({
      label: t(trait),
      values,
      write: (value) => t(`option_${trait}_${value}`),
      choose: (value) => change({ [trait]: value }),
    });
  const pickers = {
    pattern: patternPicker(t, model, recipe, change),
    reading: option("reading", ["keep", "ignore"]),
    when: option("when", ["before", "after"]),
  };
  const turn = make(
    "button",
    { type: "button", onclick: () => change({ mask: flipped(model.get("mask")) }) },
    t("turn"),
  );
  const seen = liveLine();
  const tryThis = make("p", { class: "mha-try" });
  const gridPlace = make("div");
  const weightsPlace = make("div");
  const scoresPlace = make("div");

  const demo = root(
    "heads mha-mask",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    make("div", { class: "mha-row" }, ...Object.values(pickers).map((each) => each.element)),
    make("div", { class: "mha-both" }, make("div", {}, gridPlace, turn), weightsPlace),
    seen,
    tryThis,
    make("details", {}, make("summary", {}, t("given")), scoresPlace),
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  // These have one part per word, so other words get new ones.
  let [parts, openLength] = [[], null];
  function openWords(words, length) {
    const grid = maskGrid(t, { words, change: (mask) => change({ mask }) });
    const weights = weightsTable(t, words);
    const scores = scoresTable(t, words);
    gridPlace.replaceChildren(grid.element);
    weightsPlace.replaceChildren(weights.element);
    scoresPlace.replaceChildren(scores.element);
    [parts, openLength] = [[grid, weights, scores], length];
  }

  function draw() {
    const result = model.get("result");
    const { length, keep } = result;
    const words = recipe.words.map((word, j) => (j < length ? word : recipe.pad));
    const [reading, when, mask] = ["reading", "when", "mask"].map((name) => model.get(name));
    const pattern = patternOf(keep, length);
    const turned = pattern === "free" ? patternOf(flipped(keep), length) : "free";
    /** @type {Situation} */
    const now = { ...result, words, reading, when, mask, pattern, turned: turned === "free" ? null : turned };

    if (length !== openLength) openWords(words, length);
    for (const [name, picker] of Object.entries(pickers)) picker.show(now[name]);
    for (const part of parts) part.show(now);
    tryThis.replaceChildren(rich(saying.tryThis(now)));
    say(seen, ...saying.seen(now).map((line) => make("span", { class: "mha-said" }, rich(line), " ")));
  }

  const events = ["result", "reading", "when", "mask"].map((name) => `change:${name}`);
  for (const event of events) model.on(event, draw);
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

/** One button for each pattern: it ticks what this pattern needs in the reading that is set. */
function patternPicker(t, model, recipe, change) {
  return buttonPicker({
    label: t("patterns"),
    values: [...PATTERNS, "free"],
    write: (pattern) => t(`pattern_${pattern}`),
    choose(pattern) {
      const all = recipe.words.length;
      const [now, ignore] = [model.get("length"), model.get("reading") === "ignore"];
      const length = { padding: recipe.padded_length, free: now }[pattern] ?? all;
      const keep = keptBy(pattern, length, all);
      change({ length, mask: ignore ? flipped(keep) : keep });
    },
  });
}

export default { render };
