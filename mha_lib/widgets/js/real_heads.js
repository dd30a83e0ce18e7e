/**
 * Real heads: every head of a pretrained model on a sentence, and what each head follows.
 *
 * The weights are many. On the site the page asks for them once the demo comes into view, a
 * sentence at a time; in Jupyter they come with the result.
 *
 * @typedef {object} Result empty until the sentence's weights are there
 * @property {[number, number, number, boolean]} of sentence, layer, head, and whether words only
 * @property {string} weights all heads' in bytes, base64, (layers, h, N, N)
 * @property {number[][]} shown (n, n), the chosen head's as they are drawn
 * @property {number[]} left_out (n), what each of those tokens gives to special ones
 * @property {Record<string, number|null>} here the mean weight at each place, in this sentence
 * @property {Record<string, object>} relations what was measured over many sentences
 */

import { lookOfOneHead } from "./head_look.js";
import { heatmap } from "./heatmap.js";
import { selectPicker } from "./pickers.js";
import { keptTokens, meanAt, placesIn, unpackWeights, weightsOf, without } from "./real_heads_data.js";
import { gridOfHeads } from "./real_heads_grid.js";
import { scoresOfHeads } from "./real_heads_scores.js";
import { changer, freshId, liveLine, make, literal, rich, root, say, scrollBox, showWeight, translator } from "./ui.js";

/**
 * What RealHeads.compute does in Python, with the data that this page has loaded.
 * @returns {Result|{}}
 */
export function compute({ recipe, sentence: place, layer, head, words_only, loaded = {} }) {
  const sentence = recipe.sentences[place];
  const model = recipe.models[sentence.model];
  const weights = loaded[dataOf(recipe, place)];
  const measured = loaded[model.name];
  if (!weights || !measured) return {};
  const all = weightsOf(unpackWeights(weights), layer * model.heads + head, sentence.tokens.length);
  const here = Object.entries(placesIn(sentence)).map(([name, pairs]) => [name, meanAt(all, pairs)]);
  return {
    of: [place, layer, head, words_only],
    weights,
    ...without(all, keptTokens(sentence, words_only)),
    here: Object.fromEntries(here),
    relations: measured.relations,
  };
}

/** The name of the file that holds a sentence's weights. */
function dataOf({ models, sentences }, place) {
  return `${models[sentences[place].model].name}.${sentences[place].name}`;
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "real_heads");
  const recipe = model.get("recipe");
  const set = changer(model);
  let inView = false; // or used, wherever the window is
  function change(traits) {
    inView = true;
    set(traits);
  }
  /** What pictures of one sentence offer need not be there in the next, which is still to come. */
  function choose(traits) {
    if (model.get("result").of?.[0] === model.get("sentence")) change(traits);
  }

  const titleId = freshId("title");
  const tryThis = make("p", { class: "mha-try" });
  const controls = pickers(t, recipe, change, () => model.get("sentence"));
  const waiting = make("p", { class: "mha-try", role: "status" });
  const seen = liveLine();
  const [gridPlace, lookPlace, mapPlace] = [make("div"), make("div"), make("div")];
  const scores = scoresOfHeads(t, choose);
  const note = make("p", { class: "mha-note" });
  const parts = make(
    "div",
    { hidden: true },
    make("p", { class: "mha-subtitle" }, t("all_heads")),
    gridPlace,
    make("p", { class: "mha-subtitle" }, t("one_head")),
    lookPlace,
    seen,
    mapPlace,
    make("p", { class: "mha-subtitle" }, t("scores")),
    make("p", { class: "mha-try" }, rich(t("scores_how"))),
    scores.element,
    note,
  );
  const demo = root("heads mha-real", make("p", { class: "mha-title", id: titleId }, t("title")), tryThis, controls.element, waiting, parts);
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  let [grid, gridOf, look, map, open] = [null, null, null, null, ""];
  const names = [""]; // of the head in view

  /** A sentence has its own words: new pictures of them. */
  function openSentence(words, language) {
    look?.stop();
    look = lookOfOneHead(t, { sentence: { words, language }, names, change: ({ query }) => choose({ query: kept()[query] }) });
    lookPlace.replaceChildren(look.element);
    lookPlace.style.setProperty("--mha-count", String(words.length));
    const word = (text) => make("span", { lang: language }, text);
    map = heatmap({ caption: "", corner: t("corner"), rows: words.map(word), columns: words.map(word) });
    map.element.style.setProperty("--mha-head", "var(--mha-head-0)");
    mapPlace.replaceChildren(scrollBox(t("one_head"), map.element));
  }
  const kept = () => keptTokens(recipe.sentences[model.get("sentence")], model.get("words_only"));

  function draw() {
    const [place, layer, head, query, wordsOnly, result] = ["sentence", "layer", "head", "query", "words_only", "result"].map((name) => model.get(name));
    const sentence = recipe.sentences[place];
    const of = recipe.models[sentence.model];
    controls.show({ place, layer, head, words_only: wordsOnly });
    tryThis.replaceChildren(rich(t(wordsOnly ? "try_words" : "try_all")));
    parts.inert = !result.shown;
    if (!result.shown) {
      waiting.textContent = result.error ?? t("waiting");
      want();
      return;
    }
    // What is set in Python arrives one by one: wait until it fits together.
    if (String(result.of) !== String([place, layer, head, wordsOnly])) return;
    waiting.textContent = "";
    parts.hidden = false;
    const bytes = unpackWeights(result.weights);
    if (gridOf !== of) {
      grid = gridOfHeads(t, of, choose);
      gridPlace.replaceChildren(grid.element);
      gridOf = of;
    }
    const words = kept().map((i) => sentence.tokens[i]);
    if (open !== `${place} ${wordsOnly}`) openSentence(words, sentence.language);
    open = `${place} ${wordsOnly}`;
    const row = Math.max(0, kept().indexOf(query));
    names[0] = t("head_name", { layer, head });
    grid.show({ bytes, sentence, layer, head, words_only: wordsOnly });
    look.show({ head: 0, query: row, weights: [result.shown] });
    map.element.caption.replaceChildren(rich(t("map_of", { layer, head })));
    map.show(result.shown, row);
    scores.show({ result, layer, head, model: of });
    say(seen, rich(sayRow(t, { sentence, words, row, result, layer, head, wordsOnly }), sentence.language));
    note.replaceChildren(rich(sayNote(t, of, recipe.date)));
  }

  /** On the site: load what the chosen sentence needs, once the demo is in view. */
  async function want() {
    if (!model.load || !inView) return;
    const place = model.get("sentence");
    const needed = [recipe.models[recipe.sentences[place].model].name, dataOf(recipe, place)];
    let found;
    try {
      found = await Promise.all(needed.map(async (name) => [name, await model.load(name)]));
      if (found.some(([, data]) => data === undefined)) throw new Error(`${needed} hold nothing`);
    } catch {
      parts.hidden = true; // another sentence's pictures
      waiting.textContent = t("not_loaded");
      return;
    }
    change({ loaded: { ...model.get("loaded"), ...Object.fromEntries(found) } });
  }
  function nowInView() {
    if (inView) return;
    inView = true;
    if (!model.get("result").shown) want();
  }
  model.whenSeen?.(demo).then(nowInView);
  demo.addEventListener("focusin", nowInView);

  const events = ["result", "query"].map((name) => `change:${name}`);
  for (const event of events) model.on(event, draw);
  draw();
  return () => {
    look?.stop();
    for (const event of events) model.off(event, draw);
  };
}

/** Which model, sentence, layer and head, and whether special tokens are drawn. */
function pickers(t, { models, sentences }, change, nowPlace) {
  const upTo = (count) => Array.from({ length: count }, (_, i) => i);
  /** Another sentence may have fewer words; another model, fewer heads. */
  function go(place) {
    const next = { sentence: place, query: Math.min(2, sentences[place].tokens.length - 1) };
    const { model } = sentences[place];
    if (model !== sentences[nowPlace()].model) Object.assign(next, { layer: 0, head: Math.min(2, models[model].heads - 1) });
    change(next);
  }
  const model = selectPicker({
    label: t("model"),
    values: upTo(models.length),
    write: (i) => models[i].name,
    choose: (i) => go(sentences.findIndex((each) => each.model === i)),
  });
  const sentence = selectPicker({ label: t("sentence"), values: [], write: (i) => sentenceName(t, sentences[i]), choose: go });
  const [layers, heads] = ["layer", "head"].map((name) =>
    selectPicker({ label: t(name), values: [], write: String, choose: (value) => change({ [name]: value }) }),
  );
  const id = freshId("words_only");
  const box = make("input", { type: "checkbox", id, onchange: () => change({ words_only: box.checked }) });
  let offered = null;
  function show({ place, layer, head, words_only }) {
    const of = sentences[place].model;
    if (offered !== of) {
      sentence.offer(upTo(sentences.length).filter((i) => sentences[i].model === of));
      layers.offer(upTo(models[of].layers));
      heads.offer(upTo(models[of].heads));
      offered = of;
    }
    model.show(of);
    sentence.show(place);
    layers.show(layer);
    heads.show(head);
    box.checked = words_only;
  }
  const choice = make("div", { class: "mha-choice" }, box, make("label", { for: id }, t("words_only")));
  const parts = [model, sentence, layers, heads].map(({ element }) => element);
  return { element: make("div", { class: "mha-row" }, ...parts, choice), show };
}

/** A sentence, with what it means where the reader may not know its language. */
function sentenceName(t, { name, text, language }) {
  return ["vi", "ms"].includes(language) ? t("glossed", { text, gloss: t(`gloss_${name}`) }) : text;
}

/** Where the chosen token looks, and what special tokens have to do with it. */
function sayRow(t, { sentence, words, row, result, layer, head, wordsOnly }) {
  const weights = result.shown[row];
  const most = weights.indexOf(Math.max(...weights));
  const values = { layer, head, word: literal(words[row]), most: literal(words[most]), weight: showWeight(weights[most]) };
  const specials = sentence.tokens.filter((_, i) => sentence.special[i]);
  if (specials.length === 0) return t("seen", values);
  const names = specials.map((token) => `\`${literal(token)}\``).join(t("and"));
  if (wordsOnly) {
    const left = result.left_out[row];
    if (left > 0.995) return t("seen_nothing", { ...values, names });
    return t("seen_words", { ...values, names, left: showWeight(left), rest: showWeight(1 - left) });
  }
  const onThem = weights.reduce((total, weight, i) => total + (sentence.special[i] ? weight : 0), 0);
  return t("seen_all", { ...values, names, special: showWeight(onThem) });
}

/** What model this is, and what not to conclude. */
function sayNote(t, { source, licence, bits, package: from }, date) {
  const about = licence ? t(bits < 16 ? "about_rounded" : "about", { source, licence, bits, from, date }) : "";
  return `${about} ${t("note")}`.trim();
}

export default { render };
