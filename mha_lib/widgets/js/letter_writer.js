/**
 * A trained decoder writes, letter by letter: what does each of its heads look at?
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Result
 * @property {string} text @property {number} query what it is the result of
 * @property {number[][][]} weights (layers, h, query + 1)
 * @property {number[]} chances (32), of the letters that may come next
 */

import { softmax } from "./attention.js";
import { runBlocks } from "./blocks.js";
import { showInCell } from "./heatmap.js";
import { letterSayings } from "./letter_sayings.js";
import { buttonPicker } from "./pickers.js";
import { linear, unpack } from "./trained.js";
import { arrowKeys, changer, freshId, liveLine, make, rich, root, say, scrollBox, showWeight, translator } from "./ui.js";

const AT_ONCE = 10; // letters that are drawn by one click
const LIKELIEST = 5; // letters whose chances are shown

/** @type {WeakMap<object, object>} each packed model, unpacked once, and what it last read */
const readers = new WeakMap();

/**
 * What LetterWriter.compute does in Python, with this page's own attention.
 * @param {{recipe: object, text: string, query: number}} state
 * @returns {Result}
 */
export function compute({ recipe, text: given, query: wanted }) {
  const text = given.toLowerCase();
  if (!readers.has(recipe)) readers.set(recipe, { model: unpack(recipe.model), text: null, seen: null });
  const reader = readers.get(recipe);
  // No letter sees later ones: what a query sees in the whole text is what it sees in its beginning.
  if (reader.text !== text) Object.assign(reader, { text, seen: readAll(reader.model, recipe, text) });
  const { x, weights } = reader.seen;
  const query = Math.min(wanted, text.length - 1);
  const [logits] = linear([x[query]], reader.model["head.weight"]);
  return {
    text,
    query,
    weights: weights.map((heads) => heads.map((map) => map[query].slice(0, query + 1))),
    chances: softmax(logits),
  };
}

/** Send a text through all blocks. @returns {{x: number[][], weights: number[][][][]}} */
function readAll(model, recipe, text) {
  const vectors = model["embedding.weight"];
  const larger = Math.sqrt(vectors[0].length);
  const letters = [...text].map((letter) => vectors[recipe.alphabet.indexOf(letter)]);
  const tokens = letters.map((vector) => vector.map((each) => each * larger)); // (N, d_model)
  const options = { numLayers: recipe.num_layers, numHeads: recipe.num_heads, causal: true, rotating: true };
  return runBlocks(model, "", tokens, options);
}

/** Draw a letter: chances to the power of 1 / temperature, and a number from 0 to 1. */
export function drawn(chances, temperature, number) {
  const powers = chances.map((chance) => chance ** (1 / temperature));
  let left = number * powers.reduce((sum, power) => sum + power, 0);
  const place = powers.findIndex((power) => (left -= power) < 0);
  return place < 0 ? chances.length - 1 : place;
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "letter_writer");
  const recipe = model.get("recipe");
  const change = changer(model);
  const saying = letterSayings(t, recipe);

  const titleId = freshId("title");
  const tryThis = make("p", { class: "mha-try" });
  const refused = make("p", { class: "mha-refused", role: "alert" });
  const id = freshId("text");
  const field = make("input", { type: "text", id, maxlength: recipe.most, autocomplete: "off", spellcheck: "false" });
  const form = make(
    "form",
    { class: "mha-row", onsubmit: submit },
    make("div", { class: "mha-picker" }, make("label", { for: id }, t("text")), field),
    make("button", { type: "submit" }, t("read")),
  );
  const likeliest = make("button", { type: "button", onclick: () => write(1, mostLikely) }, t("likeliest"));
  const byChance = make("button", { type: "button", onclick: () => write(AT_ONCE, byDrawing) }, t("draw", { count: AT_ONCE }));
  const again = make("button", { type: "button", onclick: () => read(recipe.opening) }, t("again"));
  const heads = buttonPicker({
    label: t("heads"),
    values: Array.from({ length: recipe.num_layers * recipe.num_heads }, (_, i) => i),
    write: (i) => `${Math.floor(i / recipe.num_heads) + 1}.${(i % recipe.num_heads) + 1}`,
    choose: (i) => change({ layer: Math.floor(i / recipe.num_heads), head: i % recipe.num_heads }),
  });
  const line = make("div", { class: "mha-letters", role: "group", "aria-label": t("letters"), onkeydown: (event) => keys(event) });
  const next = make("table", { class: "mha-next" });
  const looks = make("table", { class: "mha-looks" });
  const seen = liveLine();
  const demo = root(
    "heads mha-writer",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    form,
    refused,
    make("div", { class: "mha-row mha-write" }, likeliest, byChance, again),
    heads.element,
    line,
    seen,
    make("div", { class: "mha-tables" }, scrollBox(t("next"), next), scrollBox(t("looks"), looks)),
    make("p", { class: "mha-note" }, rich(t("note", { right: showWeight(recipe.accuracy), temperature: recipe.temperature }))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  let [buttons, drawnFor] = [[], null];
  const keys = arrowKeys(() => buttons, look);

  const mostLikely = (chances) => chances.indexOf(Math.max(...chances));
  const byDrawing = (chances) => drawn(chances, recipe.temperature, Math.random());
  let [left, choose] = [0, mostLikely];

  /** Look from a letter, and write no more. */
  function look(query) {
    left = 0;
    change({ query });
  }

  /** Write so many letters. Each needs the result of those before, which in Jupyter comes later. */
  function write(count, way) {
    const { text, query } = model.get("result");
    [left, choose] = [count, way];
    if (query === text.length - 1) step();
    else change({ query: text.length - 1 });
  }

  function step() {
    const { text, query, chances } = model.get("result");
    if (left === 0 || text !== model.get("text").toLowerCase() || query !== text.length - 1) return;
    left = text.length < recipe.most ? left - 1 : 0;
    if (text.length < recipe.most) change({ text: text + recipe.alphabet[choose(chances)], query: text.length });
  }

  function submit(event) {
    event.preventDefault();
    read(field.value);
  }

  /** Read a text, and look at its last letter. */
  function read(given) {
    const text = given.toLowerCase();
    const known = [...text].every((letter) => recipe.alphabet.includes(letter));
    const fits = known && text.length > 0 && text.length <= recipe.most;
    refused.textContent = fits ? "" : t("refused", { most: recipe.most });
    left = 0;
    if (fits) change({ text, query: text.length - 1 });
  }

  function draw() {
    /** @type {Result} */
    const now = model.get("result");
    const [layer, head] = [model.get("layer"), model.get("head")];
    if (drawnFor !== now.text) {
      const held = buttons.indexOf(document.activeElement);
      buttons = [...now.text].map((letter, place) =>
        make("button", { type: "button", onclick: () => look(place) }, ...saying.shown(letter)),
      );
      line.replaceChildren(...buttons);
      if (held >= 0) buttons[Math.min(held, buttons.length - 1)].focus();
      field.value = now.text;
      drawnFor = now.text;
    }
    const row = now.weights[layer][head];
    buttons.forEach((button, place) => {
      button.setAttribute("aria-pressed", String(place === now.query));
      button.tabIndex = place === now.query ? 0 : -1;
      button.style.setProperty("--mha-weight", String(row[place] ?? 0));
      button.toggleAttribute("data-later", place > now.query);
    });
    demo.style.setProperty("--mha-head", `var(--mha-head-${layer * recipe.num_heads + head})`);
    heads.show(layer * recipe.num_heads + head);
    const full = now.text.length >= recipe.most;
    for (const button of [likeliest, byChance]) button.setAttribute("aria-disabled", String(full));
    next.replaceChildren(...drawNext(t, recipe, now, saying));
    looks.replaceChildren(...drawLooks(t, recipe, now, saying));
    if (left === 0 || full) say(seen, rich(saying.seen(now, layer, head)));
    tryThis.replaceChildren(rich(t(full ? "try_again" : now.query < now.text.length - 1 ? "try_later" : "try_write")));
    if (left > 0) setTimeout(step); // so that each letter is seen to come
  }

  const events = ["result", "layer", "head"].map((name) => `change:${name}`);
  for (const event of events) model.on(event, draw);
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

/** The likeliest next letters, and their chances. */
function drawNext(t, { alphabet }, { chances }, saying) {
  const best = chances.map((chance, i) => [chance, i]).sort((a, b) => b[0] - a[0]).slice(0, LIKELIEST);
  const lines = best.map(([chance, i]) => {
    const cell = make("td", { class: "mha-weight" });
    showInCell(cell, chance);
    return make("tr", {}, make("th", { scope: "row" }, ...saying.shown(alphabet[i])), cell);
  });
  const header = make("tr", {}, make("th", { scope: "col" }, t("letter")), make("th", { scope: "col" }, t("chance")));
  return [make("caption", {}, t("next")), make("thead", {}, header), make("tbody", {}, ...lines)];
}

/** Where each head looks most from the chosen letter. */
function drawLooks(t, recipe, { text, query, weights }, saying) {
  const lines = weights.flatMap((heads, layer) =>
    heads.map((row, head) => {
      const best = row.indexOf(Math.max(...row));
      const cell = make("td", { class: "mha-weight" });
      showInCell(cell, row[best]);
      const line = make("tr", {}, make("th", { scope: "row" }, `${layer + 1}.${head + 1}`));
      line.append(make("td", {}, ...saying.shown(text[best])), make("td", {}, saying.back(query - best)), cell);
      line.style.setProperty("--mha-head", `var(--mha-head-${layer * recipe.num_heads + head})`);
      return line;
    }),
  );
  const names = ["head", "letter", "where", "weight"].map((name) => make("th", { scope: "col" }, t(name)));
  return [make("caption", {}, t("looks")), make("thead", {}, make("tr", {}, ...names)), make("tbody", {}, ...lines)];
}

export default { render };
