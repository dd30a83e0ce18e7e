/**
 * A trained model of a made-up language: what does each head do, and what is lost without it?
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Result
 * @property {number[][][]} weights (h, N, N), those of heads that are off too
 * @property {number[][]} places (N, 3), where the word stands that each relation asks for
 * @property {number[][]} guesses (N, 3), the words that the model names
 * @property {number[][]} chances (N, 3), what it gives them
 */

import { relate, read } from "./grammar_model.js";
import { grammarSayings, isRight } from "./grammar_sayings.js";
import { heatmap } from "./heatmap.js";
import { unpack } from "./trained.js";
import { arrowKeys, changer, freshId, liveLine, make, rich, root, say, scrollBox, showWeight, translator } from "./ui.js";

const LENGTH = 8; // words of a sentence

/** @type {WeakMap<object, object>} each packed model, unpacked once */
const unpacked = new WeakMap();

/**
 * What GrammarHeads.compute does in Python, with this page's own attention.
 * @param {{recipe: object, words: number[], markers: number[], heads: boolean[]}} state
 * @returns {Result}
 */
export function compute({ recipe, words, markers, heads }) {
  if (!unpacked.has(recipe)) unpacked.set(recipe, unpack(recipe.model));
  const { weights, guesses, chances } = read(unpacked.get(recipe), words, markers, heads);
  return { weights, places: relate(words, markers), guesses, chances };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "grammar_heads");
  const recipe = model.get("recipe");
  const saying = grammarSayings(t, recipe);
  const change = changer(model);
  const headNumbers = Array.from({ length: recipe.num_heads }, (_, head) => head);

  const titleId = freshId("title");
  const tryThis = make("p", { class: "mha-try" });
  const controls = makeControls(t, model, change);
  const sentence = tokens(t, change);
  const answers = make("table", { class: "mha-answers" });
  const score = make("p", { class: "mha-verdict" });
  const maps = make("div", { class: "mha-maps" });
  const seen = liveLine();
  const switches = headNumbers.map((head) =>
    make(
      "button",
      { type: "button", onclick: () => change({ heads: model.get("heads").with(head, !model.get("heads")[head]) }) },
      t("head", { number: head + 1 }),
    ),
  );
  const group = freshId("heads");
  const demo = root(
    "heads mha-grammar",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    make(
      "div",
      { class: "mha-row" },
      make(
        "div",
        { class: "mha-picker", role: "group", "aria-labelledby": group },
        make("span", { id: group }, t("heads")),
        make("div", { class: "mha-buttons" }, ...switches),
      ),
      controls,
    ),
    sentence.element,
    scrollBox(t("answers"), answers),
    seen,
    score,
    make("p", { class: "mha-subtitle" }, t("maps")),
    scrollBox(t("maps"), maps),
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  const tables = headNumbers.map((head) => mapOfHead(t, head));
  maps.append(...tables.map((table) => table.element));

  function draw() {
    /** @type {Result} */
    const result = model.get("result");
    const [words, markers, heads, query] = ["words", "markers", "heads", "query"].map((name) => model.get(name));
    const now = { ...result, words, markers, heads, query };
    switches.forEach((button, head) => {
      button.style.setProperty("--mha-head", `var(--mha-head-${head})`);
      button.setAttribute("aria-pressed", String(heads[head]));
    });
    const names = words.map((word, i) => [recipe.words[word], recipe.markers[markers[i]]]);
    sentence.show(names, query);
    tables.forEach((table, head) => {
      table.element.dataset.off = String(!heads[head]);
      table.caption.replaceChildren(rich(saying.head(head, heads[head])));
      table.show(names, result.weights[head], query);
    });
    answers.replaceChildren(...drawAnswers(t, recipe, now));
    score.replaceChildren(rich(saying.score(now)));
    say(seen, rich(saying.seen(now)));
    tryThis.replaceChildren(rich(t(saying.suggestion(now))));
  }

  const events = ["change:result", "change:query"];
  for (const event of events) model.on(event, draw);
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

/** Another sentence, or the chosen word moved in this one. */
function makeControls(t, model, change) {
  const button = (text, onclick) => make("button", { type: "button", onclick }, text);
  let shown = 0; // which of the drawn sentences; the reader may have changed it since
  function another() {
    const { sentences } = model.get("recipe");
    shown = (shown + 1) % sentences.length;
    change(sentences[shown]);
  }
  /** Change places with the neighbour: the word takes its marker along. */
  function move(by) {
    const [query, words, markers] = ["query", "words", "markers"].map((name) => model.get(name));
    const there = query + by;
    if (there < 0 || there >= words.length) return;
    const swapped = (list) => list.with(query, list[there]).with(there, list[query]);
    change({ words: swapped(words), markers: swapped(markers), query: there });
  }
  /** The next word of the same class that is not in the sentence: its partner stays its partner. */
  function exchange() {
    const [query, words] = ["query", "words"].map((name) => model.get(name));
    const first = words[query] - (words[query] % 4);
    const free = [1, 2, 3].map((step) => first + ((words[query] + step) % 4));
    change({ words: words.with(query, free.find((word) => !words.includes(word))) });
  }
  return make(
    "div",
    { class: "mha-steps" },
    button(t("another"), another),
    button(t("earlier"), () => move(-1)),
    button(t("later"), () => move(1)),
    button(t("exchange"), exchange),
  );
}

/** The sentence: a row of words, one of which is chosen. */
function tokens(t, change) {
  const hint = freshId("hint");
  const buttons = Array.from({ length: LENGTH }, (_, query) =>
    make("button", { type: "button", onclick: () => change({ query }) }),
  );
  const toolbar = make(
    "div",
    { class: "mha-tokens", role: "toolbar", "aria-label": t("words"), "aria-describedby": hint, onkeydown: arrowKeys(() => buttons, (query) => change({ query })) },
    ...buttons,
  );
  const element = make("div", {}, toolbar, make("p", { class: "mha-try", id: hint }, t("words_hint")));
  function show(names, query) {
    buttons.forEach((button, i) => {
      button.replaceChildren(names[i][0], make("sub", {}, names[i][1]));
      button.setAttribute("aria-pressed", String(i === query));
      button.tabIndex = i === query ? 0 : -1;
    });
  }
  return { element, show };
}

/** The weights of one head. */
function mapOfHead(t, head) {
  const [rows, columns] = [0, 1].map(() => Array.from({ length: LENGTH }, () => make("span")));
  const { element, show, mark } = heatmap({ caption: "", corner: t("corner"), rows, columns });
  element.style.setProperty("--mha-head", `var(--mha-head-${head})`);
  let drawn = "";
  return {
    element,
    caption: element.caption,
    show(names, weights, query) {
      for (const headers of [rows, columns]) {
        headers.forEach((header, i) => {
          if (header.textContent !== names[i][0]) header.textContent = names[i][0];
        });
      }
      // A switch changes no weight, and to colour 64 cells takes longer than to compute them.
      if (drawn === String(weights)) mark(query);
      else show(weights, query);
      drawn = String(weights);
    },
  };
}

/** What is asked at the chosen word, and what the model says. */
function drawAnswers(t, recipe, now) {
  const { words, query, places, guesses, chances } = now;
  const body = recipe.relations.map((relation, r) => {
    const name = make("th", { scope: "row" }, t(`relation_${relation}`));
    if (r === 0 && query === 0) return make("tr", {}, name, make("td", { colspan: 4 }, t("no_previous")));
    const right = isRight(now, query, r);
    const row = make(
      "tr",
      { "data-right": right },
      name,
      make("td", {}, recipe.words[words[places[query][r]]]),
      make("td", {}, recipe.words[guesses[query][r]]),
      make("td", {}, showWeight(chances[query][r])),
      make("td", {}, make("span", { "aria-hidden": "true" }, right ? "✓ " : "✗ "), t(right ? "right" : "wrong")),
    );
    row.dataset.right = String(right);
    return row;
  });
  const heads = ["relation", "asked", "says", "chance", "verdict"].map((name) => make("th", { scope: "col" }, t(name)));
  const token = `${recipe.words[words[query]]}`;
  return [
    make("caption", {}, rich(t("answers_of", { word: token }))),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...body),
  ];
}

export default { render };
