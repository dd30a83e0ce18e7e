/**
 * The switchboard: two sentences, three kinds of attention. Who asks, and who answers?
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {"source"|"target"} Side
 * @typedef {object} Result
 * @property {string} kind what it is the result of: in Jupyter it comes after the choice
 * @property {Side} asks whose words are the rows
 * @property {Side} answers whose words are the columns
 * @property {boolean[][]} keep (L, S), who may look at whom
 * @property {number[][]} scores (L, S), before anything is hidden
 * @property {number[][]} weights (L, S)
 */

import { attention, matmul } from "./attention.js";
import { heatmap } from "./heatmap.js";
import { links } from "./links.js";
import { buttonPicker } from "./pickers.js";
import { switchboardSayings } from "./switchboard_sayings.js";
import { freshId, liveLine, make, rich, root, say, scrollBox, slider, translator } from "./ui.js";

/** @type {Side[]} */
const SIDES = ["source", "target"];

/**
 * What Switchboard.compute does in Python, with this page's own attention.
 * @param {{recipe: object, kind: string, written: number}} state
 * @returns {Result}
 */
export function compute({ recipe, kind, written }) {
  const { asks, answers, causal } = recipe.kinds[kind];
  const x = (side) => there(recipe.sentences[side].features, side, written); // (N, d_model)
  const { W_Q, W_K, W_V } = recipe.projections[asks === answers ? "self" : "cross"];
  const [q, k, v] = [matmul(x(asks), W_Q), matmul(x(answers), W_K), matmul(x(answers), W_V)];
  const { scores, masked_scores, weights } = attention(q, k, v, { causal });
  const keep = masked_scores.map((row) => row.map((score) => score !== -Infinity));
  return { kind, asks, answers, keep, scores, weights };
}

/** Of the translation, what has been written; of the source, everything. */
function there(list, side, written) {
  return side === "target" ? list.slice(0, written) : list;
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "switchboard");
  const recipe = model.get("recipe");
  const saying = switchboardSayings(t, recipe);

  /** Change the kind or what is written: the word that asks must still be there. */
  function change(traits) {
    const next = Object.fromEntries(
      ["kind", "written", "query"].map((name) => [name, traits[name] ?? model.get(name)]),
    );
    const { asks } = recipe.kinds[next.kind];
    const last = there(recipe.sentences[asks].words, asks, next.written).length - 1;
    const all = { ...traits, query: Math.min(next.query, last) };
    for (const [name, value] of Object.entries(all)) model.set(name, value);
    model.save_changes();
  }

  const titleId = freshId("title");
  const kinds = buttonPicker({
    label: t("kinds"),
    values: Object.keys(recipe.kinds),
    write: (kind) => t(`kind_${kind}`),
    choose: (kind) => change({ kind }),
  });
  const progress = slider({
    label: t("written"),
    min: 1,
    max: recipe.sentences.target.words.length,
    oninput: (written) => change({ written }),
  });
  const sides = SIDES.map((side) => sideBox(t, recipe, side));
  const tryThis = make("p", { class: "mha-try" });
  const linksPlace = make("div");
  const tablePlace = make("div");
  const seen = liveLine();

  const demo = root(
    "heads mha-switch",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    make("div", { class: "mha-row" }, kinds.element, progress.element),
    make("div", { class: "mha-sides" }, ...sides.map((each) => each.element)),
    linksPlace,
    make("div", { class: "mha-view" }, tablePlace, seen),
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  // A table has one part per word, so other words get a new one; else the focus would be lost.
  let [table, between, drawnFor] = [null, null, ""];

  function draw() {
    /** @type {Result} */
    const result = model.get("result");
    const { kind, asks, answers, keep } = result;
    const written = model.get("written");
    const asking = recipe.sentences[asks].words.slice(0, keep.length);
    const answering = recipe.sentences[answers].words.slice(0, keep[0].length);
    const query = Math.min(model.get("query"), asking.length - 1);
    const now = { ...result, asking, answering, query };

    const openFor = `${kind} ${asking.length}`;
    if (drawnFor !== openFor) {
      const choose = (place) => change({ query: place });
      table = weightsTable(t, recipe, now, choose);
      tablePlace.replaceChildren(table.element);
      between = asks === answers ? null : betweenSentences(recipe, now, choose);
      linksPlace.replaceChildren(...(between ? [between.element] : []));
      drawnFor = openFor;
    }
    table.show(now);
    between?.show(now.weights, query);
    kinds.show(kind);
    progress.show(written);
    for (const side of sides) side.show(now, written);
    tryThis.replaceChildren(rich(t(`try_${kind}`)));
    say(seen, ...saying.seen(now));
  }

  const events = ["result", "kind", "written", "query"].map((name) => `change:${name}`);
  for (const event of events) model.on(event, draw);
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

/** One sentence, and the part that it plays. @param {Side} side */
function sideBox(t, recipe, side) {
  const { language, words } = recipe.sentences[side];
  const sentence = make("span", { lang: language, class: "mha-sentence" });
  const part = make("span", { class: "mha-part" });
  const name = make("span", { class: "mha-side-name" }, t(`side_${side}`));
  const element = make("p", { class: "mha-side" }, name, sentence, part);
  return {
    element,
    show({ asks, answers }, written) {
      const [isAsking, isAnswering] = [asks === side, answers === side];
      const role = isAsking ? (isAnswering ? "both" : "asks") : isAnswering ? "answers" : "none";
      sentence.textContent = there(words, side, written).join(" ");
      part.textContent = t(`part_${role}`);
      element.dataset.part = role;
    },
  };
}

/** Two sentences: lines from the words that ask to those that answer. */
function betweenSentences(recipe, { asks, answers, asking, answering }, choose) {
  const [one, other] = [asks, answers].map((side) => recipe.sentences[side].language);
  return links({
    asking: { words: asking, language: one },
    answering: { words: answering, language: other },
    choose,
  });
}

/** The weights: a row for each word that asks, a column for each that answers. */
function weightsTable(t, recipe, { asks, answers, asking, answering }, choose) {
  const lang = (side) => recipe.sentences[side].language;
  const buttons = asking.map((word, i) =>
    make("button", { type: "button", lang: lang(asks), onclick: () => choose(i) }, word),
  );
  const columns = answering.map((word) => make("span", { lang: lang(answers) }, word));
  const caption = t("caption", { rows: asking.length, columns: answering.length });
  const map = heatmap({ caption, corner: t("corner"), rows: buttons, columns });

  function show({ weights, keep, query }) {
    map.show(weights, query);
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === query)));
    [...map.element.tBodies[0].rows].forEach((row, i) =>
      keep[i].forEach((kept, j) => {
        const cell = row.cells[j + 1];
        cell.classList.toggle("mha-shut", !kept);
        if (kept) return;
        const cross = make("span", { "aria-hidden": "true" }, "✕");
        cell.replaceChildren(cross, make("span", { class: "mha-hidden" }, t("shut")));
      }),
    );
  }
  return { element: scrollBox(caption, map.element), show };
}

export default { render };
