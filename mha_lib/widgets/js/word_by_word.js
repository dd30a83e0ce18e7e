/**
 * While a sentence is written word by word, what must be computed anew, and what can be kept?
 * A tiny model with one layer of attention writes, with a KV cache or without.
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Step what one step computes
 * @property {number[]} words (S) so far, as numbers of the vocabulary
 * @property {number[]} projected the places of the L words that went through the layer
 * @property {boolean[][]} keep (L, S), who may look at whom
 * @property {number[][]} scores (L, S)
 * @property {number[][]} weights (L, S)
 * @property {number[]} table one number for each word of the vocabulary, as are the next two
 * @property {number[]} found what attention adds
 * @property {number[]} logits table + found
 * @property {number} next the word chosen
 *
 * @typedef {{words: number[], scores: number[]}} Work how many of each, step after step
 * @typedef {Step & {step: number, cache: boolean, work: {with: Work, without: Work},
 *   same_words: boolean, apart: number}} Result
 */

import { attention, matmul } from "./attention.js";
import { buttonPicker } from "./pickers.js";
import { writerSayings } from "./word_by_word_sayings.js";
import { drawChoice, drawRows, drawWork } from "./word_by_word_tables.js";
import { changer, freshId, liveLine, make, rich, root, say, scrollBox, translator } from "./ui.js";

const LANGUAGE = "en"; // the words'

/**
 * What WordByWord.compute does in Python, with this page's own attention.
 * @param {{recipe: object, step: number, cache: boolean}} state
 * @returns {Result}
 */
export function compute({ recipe, step, cache }) {
  const ways = { with: written(recipe, step, true), without: written(recipe, step, false) };
  const count = (run) => ({
    words: run.map(({ projected }) => projected.length),
    scores: run.map(({ scores }) => scores.flat().length),
  });
  return {
    step,
    cache,
    ...ways[cache ? "with" : "without"].at(-1),
    work: { with: count(ways.with), without: count(ways.without) },
    same_words: ways.with.every(({ next }, i) => next === ways.without[i].next),
    apart: Math.max(...ways.with.map((one, i) => apart(one, ways.without[i]))),
  };
}

/** Let the model write so many words. @returns {Step[]} */
function written({ first, embeddings, follows, projections }, steps, cached) {
  const { W_Q, W_K, W_V, W_O } = projections;
  let [keptKeys, keptValues] = [[], []]; // (S, d_k) each
  const [words, run] = [[first], []];
  while (run.length < steps) {
    const given = cached ? words.slice(-1) : [...words];
    const x = given.map((word) => embeddings[word]); // (L, d_model), L is 1 or S
    const [q, k, v] = [W_Q, W_K, W_V].map((W) => matmul(x, W)); // (L, d_k) each
    keptKeys = cached ? [...keptKeys, ...k] : k;
    keptValues = cached ? [...keptValues, ...v] : v;
    const seen = attention(q, keptKeys, keptValues, { causal: true });
    const [found] = matmul(seen.head_out.slice(-1), W_O); // (d_model)
    const table = follows[words.at(-1)];
    const logits = table.map((number, word) => number + found[word]);
    const next = logits.indexOf(Math.max(...logits));
    run.push({
      words: [...words],
      projected: given.map((_, i) => words.length - given.length + i),
      keep: seen.masked_scores.map((row) => row.map((score) => score !== -Infinity)),
      scores: seen.scores,
      weights: seen.weights,
      table,
      found,
      logits,
      next,
    });
    words.push(next);
  }
  return run;
}

/** The greatest difference between two ways of computing one step. @param {Step} one @param {Step} other */
function apart(one, other) {
  const pairs = [
    [one.weights.at(-1), other.weights.at(-1)],
    [one.logits, other.logits],
  ];
  return Math.max(...pairs.flatMap(([a, b]) => a.map((number, i) => Math.abs(number - b[i]))));
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "word_by_word");
  const recipe = model.get("recipe");
  const saying = writerSayings(t, recipe);
  const change = changer(model);

  const titleId = freshId("title");
  const controls = makeControls(t, recipe, {
    choose: (cache) => change({ cache }),
    goTo: (step) => change({ step: Math.max(1, Math.min(recipe.steps, step)) }),
    now: () => model.get("step"),
  });
  const [rows, choice, work] = [make("table", { class: "mha-heatmap" }), make("table"), make("table")];
  const sentence = make("span", { class: "mha-sentence", lang: LANGUAGE });
  const [seen, verdict, tryThis] = [liveLine(), make("p", { class: "mha-verdict" }), make("p", { class: "mha-try" })];
  const demo = root(
    "heads mha-writer",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    controls.element,
    make("p", { class: "mha-line" }, make("span", { class: "mha-quiet" }, t("so_far")), " ", sentence),
    scrollBox(t("rows"), rows),
    seen,
    make("div", { class: "mha-tables" }, scrollBox(t("choice"), choice), scrollBox(t("work"), work)),
    verdict,
    make("p", { class: "mha-note" }, rich(t("note"), LANGUAGE)),
  );
  demo.setAttribute("aria-labelledby", titleId);
  demo.style.setProperty("--mha-head", "var(--mha-head-0)"); // there is one head
  rows.classList.add("mha-rows");
  choice.classList.add("mha-choices");
  work.classList.add("mha-work");
  el.append(demo);

  // The buttons show at once. The rest waits for what follows from them.
  function drawControls() {
    controls.show(model.get("step"), model.get("cache"));
  }

  function draw() {
    drawControls();
    /** @type {Result} */
    const now = model.get("result");
    const name = (word) => recipe.vocabulary[word];
    const next = make("strong", {}, name(now.next));
    sentence.replaceChildren(`${now.words.map(name).join(" ")} → `, next);
    rows.replaceChildren(...drawRows(t, recipe, now));
    choice.replaceChildren(...drawChoice(t, recipe, now));
    work.replaceChildren(...drawWork(t, now));
    say(seen, rich(saying.seen(now), LANGUAGE));
    verdict.textContent = saying.verdict(now);
    tryThis.replaceChildren(rich(t(saying.suggestion(now))));
  }

  const watched = [
    ["change:result", draw],
    ["change:step", drawControls],
    ["change:cache", drawControls],
  ];
  for (const [event, listener] of watched) model.on(event, listener);
  draw();
  return () => {
    for (const [event, listener] of watched) model.off(event, listener);
  };
}

/** With or without, and the steps. */
function makeControls(t, recipe, { choose, goTo, now }) {
  const button = (text, onclick) => make("button", { type: "button", onclick }, text);
  const ways = buttonPicker({
    label: t("cache"),
    values: [true, false],
    write: (cache) => t(cache ? "with" : "without"),
    choose,
  });
  const back = button(t("back"), () => goTo(now() - 1));
  const next = button(t("next"), () => goTo(now() + 1));
  const over = button(t("over"), () => goTo(1));
  return {
    element: make(
      "div",
      { class: "mha-row" },
      ways.element,
      make("div", { class: "mha-steps" }, over, back, next),
    ),
    show(step, cache) {
      ways.show(cache);
      // Not `disabled`: that would throw a keyboard reader's focus away at either end.
      for (const each of [over, back]) each.setAttribute("aria-disabled", String(step === 1));
      next.setAttribute("aria-disabled", String(step === recipe.steps));
    },
  };
}

export default { render };
