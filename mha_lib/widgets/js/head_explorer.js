/**
 * The head explorer: one sentence seen by three heads, and what their views add up to.
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none. Each part of the demo is an element and a `show`
 * that brings it up to date with a situation.
 *
 * @typedef {object} Situation what there is to show
 * @property {string[]} words
 * @property {string} language the words' own
 * @property {number} head the head in view, from 0
 * @property {number} query the query word, from 0
 * @property {number[][]} features (N, d_model)
 * @property {number[]} gains (h)
 * @property {number[][][]} weights (h, N, N)
 * @property {number[][][]} contributions (h, N, d_model)
 * @property {number[][]} output (N, d_model)
 */

import { multiHeadAttention } from "./attention.js";
import { lookOfOneHead } from "./head_look.js";
import { numbersEditor } from "./head_numbers.js";
import { outputOfOneWord } from "./head_output.js";
import { sayings } from "./head_sayings.js";
import { heatmap } from "./heatmap.js";
import { changer, freshId, liveLine, make, rich, root, say, scrollBox, translator } from "./ui.js";

/**
 * What HeadExplorer.compute does in Python, with this page's own attention.
 * @param {{recipe: object, sentence: string, features: number[][], gains: number[]}} state
 */
export function compute({ recipe, sentence, features, gains }) {
  const { W_Q, W_K, W_V, W_O } = recipe.projections; // each (d_model, d_model)
  const headDim = W_Q.length / gains.length; // d_k
  const sharpened = W_Q.map((row) =>
    row.map((number, column) => number * gains[Math.floor(column / headDim)]),
  );
  const stages = multiHeadAttention(features, { W_Q: sharpened, W_K, W_V, W_O }, gains.length);
  const { weights, contributions, output } = stages;
  return { sentence, weights, contributions, output };
}

function render({ model, el }) {
  const t = translator(model, "head_explorer");
  const recipe = model.get("recipe");
  const names = recipe.heads.map((name) => t(`head_${name}`));
  const language = model.get("language");
  const saying = sayings(t, { names, meanings: recipe.meanings, language });
  const change = changer(model);

  const titleId = freshId("title");
  const tryThis = make("p", { class: "mha-try" });
  const sentences = sentencePicker(t, recipe, change);
  const heads = headPicker(t, recipe.heads, change);
  const compares = make("p");
  const lookPlace = make("div");
  const seen = liveLine();
  const view = make("div", { class: "mha-view" }, lookPlace, make("div", {}, compares, seen, tryThis));
  const gridPlace = make("div");
  const output = outputOfOneWord(t, { names, meanings: recipe.meanings, saying });
  const note = make("p", { class: "mha-note" });
  const editor = numbersEditor(t, { recipe, names, language, change });

  const demo = root(
    "heads",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    make("div", { class: "mha-row" }, sentences.element, heads.element),
    view,
    gridPlace,
    output.element,
    editor.element,
    note,
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  // These two have one part per word, so each sentence gets new ones.
  let [look, grid, open] = [null, null, null];
  function openSentence(sentence) {
    look?.stop();
    look = lookOfOneHead(t, { sentence, names, change });
    grid = gridOfAllHeads(t, { sentence, names });
    lookPlace.replaceChildren(look.element);
    view.style.setProperty("--mha-count", String(sentence.words.length));
    gridPlace.replaceChildren(grid.element);
    note.replaceChildren(rich(saying.note(sentence), sentence.language));
    open = sentence;
  }

  function draw() {
    const result = model.get("result");
    const sentence = recipe.sentences.find((each) => each.text === result.sentence);
    const traits = ["head", "query", "features", "gains"].map((name) => [name, model.get(name)]);
    /** @type {Situation} */
    const now = { ...result, ...sentence, ...Object.fromEntries(traits) };
    // What is set in Python arrives one by one: wait until it fits together.
    if (now.features.length !== now.words.length || now.query >= now.words.length) return;

    if (sentence !== open) openSentence(sentence);
    for (const part of [sentences, heads, look, grid, output, editor]) part.show(now);
    compares.textContent = t(`compares_${recipe.heads[now.head]}`);
    tryThis.replaceChildren(rich(saying.tryThis(now), now.language));
    say(seen, rich(saying.seen(now), now.language));
  }

  const events = ["result", "head", "query", "features", "gains"].map((name) => `change:${name}`);
  for (const event of events) model.on(event, draw);
  draw();
  return () => {
    look?.stop();
    for (const event of events) model.off(event, draw);
  };
}

/** A list of the sentences, each with its meaning where the reader may not know it. */
function sentencePicker(t, recipe, change) {
  const id = freshId("sentence");
  const options = recipe.sentences.map(({ text, language }) => {
    const gloss = t(`gloss_${language}`);
    // An option holds no elements: with a gloss it is in two languages, and can say neither.
    if (gloss) return make("option", { value: text }, t("glossed", { text, gloss }));
    return make("option", { value: text, lang: language }, text);
  });
  const select = make("select", { id, onchange: choose }, ...options);
  function choose() {
    const { text, features } = recipe.sentences.find((each) => each.text === select.value);
    change({ sentence: text, features, query: recipe.opening.query });
  }
  return {
    element: make("div", { class: "mha-picker" }, make("label", { for: id }, t("sentence")), select),
    show: ({ text }) => {
      select.value = text;
    },
  };
}

/** One button per head, in its colour. */
function headPicker(t, heads, change) {
  const id = freshId("heads");
  const buttons = heads.map((name, head) =>
    make(
      "button",
      { type: "button", style: `--mha-head: var(--mha-head-${head})`, onclick: () => change({ head }) },
      make("span", { class: "mha-swatch", "aria-hidden": "true" }),
      t("head_button", { number: head + 1, name: t(`head_${name}`) }),
    ),
  );
  return {
    element: make(
      "div",
      { class: "mha-picker", role: "group", "aria-labelledby": id },
      make("span", { id }, t("heads")),
      make("div", { class: "mha-buttons" }, ...buttons),
    ),
    show: ({ head }) =>
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === head))),
  };
}

/** The weights of every head side by side, as tables. */
function gridOfAllHeads(t, { sentence, names }) {
  const word = (text) => make("span", { lang: sentence.language }, text);
  const labels = names.map((name, head) => t("head_label", { number: head + 1, name }));
  const maps = labels.map((caption, head) => {
    const map = heatmap({
      caption,
      corner: t("corner"),
      rows: sentence.words.map(word),
      columns: sentence.words.map(word),
    });
    map.element.style.setProperty("--mha-head", `var(--mha-head-${head})`);
    return map;
  });
  return {
    element: make(
      "div",
      {},
      make("p", { class: "mha-subtitle" }, t("all_title")),
      make("p", { class: "mha-try" }, t("all_how")),
      make("div", { class: "mha-maps" }, ...maps.map((map, head) => scrollBox(labels[head], map.element))),
    ),
    show: ({ weights, query }) => maps.forEach((map, head) => map.show(weights[head], query)),
  };
}

export default { render };
