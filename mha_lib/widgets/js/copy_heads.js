/**
 * A trained model of attention alone reads a pattern twice: how does it know how it goes on?
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Result
 * @property {number[]} tokens (N), the start and the pattern twice
 * @property {number[][][][]} weights (layers, h, N, N)
 * @property {number[]} guesses (N), the letter that the model thinks comes next
 * @property {number[]} chances (N), what it gives it
 */

import { predict } from "./copy_model.js";
import { copySayings } from "./copy_sayings.js";
import { showInCell } from "./heatmap.js";
import { unpack } from "./trained.js";
import { arrowKeys, changer, freshId, liveLine, make, rich, root, say, scrollBox, showWeight, translator } from "./ui.js";

/** @type {WeakMap<object, object>} each packed model, unpacked once */
const unpacked = new WeakMap();

/**
 * What CopyHeads.compute does in Python, with this page's own attention.
 * @param {{recipe: object, pattern: string}} state
 * @returns {Result}
 */
export function compute({ recipe, pattern }) {
  if (!unpacked.has(recipe)) unpacked.set(recipe, unpack(recipe.model));
  const letters = [...pattern.toUpperCase()].map((letter) => recipe.alphabet.indexOf(letter));
  const tokens = [recipe.alphabet.length, ...letters, ...letters];
  return { tokens, ...predict(unpacked.get(recipe), tokens, recipe.num_layers, recipe.num_heads) };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "copy_heads");
  const recipe = model.get("recipe");
  const name = (token) => recipe.alphabet[token] ?? "▷";
  const saying = copySayings(t, recipe, name);
  const change = changer(model);

  const titleId = freshId("title");
  const tryThis = make("p", { class: "mha-try" });
  const refused = make("p", { class: "mha-refused", role: "alert" });
  const id = freshId("pattern");
  const field = make("input", { type: "text", id, maxlength: recipe.lengths[1], autocomplete: "off", spellcheck: "false" });
  const form = make(
    "form",
    { class: "mha-row", onsubmit: submit },
    make("div", { class: "mha-picker" }, make("label", { for: id }, t("pattern")), field),
    make("button", { type: "submit" }, t("read")),
    make("button", { type: "button", onclick: another }, t("another")),
  );
  const guesses = make("table", { class: "mha-guesses" });
  const looks = make("table", { class: "mha-heatmap mha-looks" });
  const [seen, score] = [liveLine(), make("p", { class: "mha-verdict" })];
  const demo = root(
    "heads mha-copy",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    form,
    refused,
    scrollBox(t("guesses"), guesses),
    score,
    scrollBox(t("looks"), looks),
    seen,
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  function submit(event) {
    event.preventDefault();
    const pattern = field.value.trim().toUpperCase();
    const [least, most] = recipe.lengths;
    const known = [...pattern].every((letter) => recipe.alphabet.includes(letter));
    const fits = pattern.length >= least && pattern.length <= most;
    const last = recipe.alphabet.at(-1);
    refused.textContent = known && fits ? "" : t("refused", { least, most, last });
    if (known && fits) read(pattern);
  }

  /** Read a pattern, and look at the second letter of its second round. */
  function read(pattern) {
    refused.textContent = "";
    change({ pattern, query: pattern.length + 2 });
  }

  function another() {
    const letters = [...recipe.alphabet].map((letter) => [Math.random(), letter]).sort((a, b) => a[0] - b[0]);
    read(letters.slice(0, 5 + Math.floor(Math.random() * 4)).map(([, letter]) => letter).join(""));
  }

  let [buttons, drawnFor] = [[], ""];
  const keys = arrowKeys(() => buttons, (query) => change({ query }));

  function draw() {
    /** @type {Result} */
    const result = model.get("result");
    const query = Math.min(model.get("query"), result.tokens.length - 1);
    const now = { ...result, query };
    if (drawnFor !== String(result.tokens)) {
      field.value = model.get("pattern").toUpperCase();
      buttons = result.tokens.map((token, place) =>
        make("button", { type: "button", onclick: () => change({ query: place }) }, name(token)),
      );
      guesses.replaceChildren(...drawGuesses(t, recipe, now, name, buttons, keys));
      drawnFor = String(result.tokens);
    }
    buttons.forEach((button, place) => {
      button.setAttribute("aria-pressed", String(place === query));
      button.tabIndex = place === query ? 0 : -1;
    });
    looks.replaceChildren(...drawLooks(t, recipe, now, name, saying));
    score.replaceChildren(rich(saying.score(now)));
    say(seen, rich(saying.seen(now)));
    tryThis.replaceChildren(rich(t(saying.suggestion(now))));
  }

  const events = ["change:result", "change:query"];
  for (const event of events) model.on(event, draw);
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

/** The letters, and under each what the model thinks comes next. */
function drawGuesses(t, recipe, { tokens, guesses, chances }, name, buttons, keys) {
  const period = (tokens.length - 1) / 2;
  const row = (label, cells) => make("tr", {}, make("th", { scope: "row" }, label), ...cells);
  const verdict = (place) => {
    if (place === tokens.length - 1) return make("td", {}, t("end"));
    const right = guesses[place] === tokens[place + 1];
    const sign = make("span", { "aria-hidden": "true" }, right ? "✓" : "✗");
    return make("td", { "data-right": String(right) }, sign, make("span", { class: "mha-hidden" }, t(right ? "right" : "wrong")));
  };
  const round = (text, count) => make("th", { scope: "colgroup", colspan: count }, text);
  return [
    make("caption", {}, t("guesses")),
    make("thead", {}, make("tr", {}, make("td"), round("", 1), round(t("first"), period), round(t("second"), period))),
    make(
      "tbody",
      {},
      make("tr", { onkeydown: keys }, make("th", { scope: "row" }, t("letter")), ...buttons.map((button) => make("td", {}, button))),
      row(t("next"), guesses.map((guess) => make("td", {}, name(guess)))),
      row(t("chance"), chances.map((chance) => make("td", {}, showWeight(chance)))),
      row(t("verdict"), tokens.map((_, place) => verdict(place))),
    ),
  ];
}

/** Where each head looks from the chosen letter: a row for each head of each layer. */
function drawLooks(t, recipe, { tokens, weights, query }, name, saying) {
  const header = make("tr", {}, make("td", { class: "mha-corner" }, t("corner")));
  header.append(...tokens.map((token) => make("th", { scope: "col" }, name(token))));
  const lines = weights.flatMap((heads, layer) =>
    heads.map((map, head) => {
      const line = make("tr", {}, make("th", { scope: "row" }, rich(saying.head(layer, head))));
      line.style.setProperty("--mha-head", `var(--mha-head-${layer * recipe.num_heads + head})`);
      line.append(
        ...map[query].map((weight, place) => {
          const cell = make("td", { class: "mha-weight" });
          if (place <= query) showInCell(cell, weight);
          return cell;
        }),
      );
      return line;
    }),
  );
  const caption = make("caption", {}, rich(t("looks_of", { letter: name(tokens[query]), place: query })));
  return [caption, make("thead", {}, header), make("tbody", {}, ...lines)];
}

export default { render };
