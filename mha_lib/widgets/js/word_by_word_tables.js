/**
 * The tables of the writer: what is computed for each word, how the next is chosen, the work.
 *
 * @typedef {import("./word_by_word.js").Result} Result
 */

import { showInCell } from "./heatmap.js";
import { make, rich } from "./ui.js";

const add = (numbers) => numbers.reduce((sum, each) => sum + each, 0);

/** Two decimals, and zeros as what they are. */
const two = (number) => (number === 0 ? "0" : number.toFixed(2).replace(/^0\./, "."));

const word = (scope, text) => make("th", { scope, lang: "en" }, text);
const header = (text, attributes = {}) => make("th", { scope: "col", ...attributes }, rich(text));

/**
 * A row for each word so far: what it is given at this step, and where it looks.
 * @param {(key: string, values?: object) => string} t
 * @param {object} recipe
 * @param {Result} now
 */
export function drawRows(t, { vocabulary }, { cache, words, projected, keep, weights }) {
  const last = words.length - 1;
  const state = (place) => (place === last ? "new" : projected.includes(place) ? "again" : "kept");
  const body = words.map((each, place) => {
    const pair = state(place); // of key and value
    // An old query has done its work: nobody keeps it.
    const query = pair === "kept" ? "unneeded" : pair;
    const row = make("tr", {}, word("row", vocabulary[each]), mark(t, query), mark(t, pair));
    const computed = projected.indexOf(place);
    if (computed === -1) {
      const span = words.length;
      row.append(make("td", { class: "mha-unneeded", colspan: span }, t("no_row")));
    } else {
      row.append(...weights[computed].map((weight, j) => weightCell(t, weight, keep[computed][j])));
    }
    if (place === last) row.setAttribute("aria-current", "true");
    return row;
  });
  const names = ["query", "pair"].map((name) => header(t(name), { rowspan: 2 }));
  return [
    make("caption", {}, t(cache ? "rows_with" : "rows_without")),
    make(
      "thead",
      {},
      make("tr", {}, header(t("word"), { rowspan: 2 }), ...names, header(t("weights"), { scope: "colgroup", colspan: words.length })),
      make("tr", {}, ...words.map((each) => word("col", vocabulary[each]))),
    ),
    make("tbody", {}, ...body),
  ];
}

/** A sign and a word: + new, ✓ kept, ↻ again. */
function mark(t, state) {
  const sign = make("span", { "aria-hidden": "true" }, t(`sign_${state}`));
  if (state !== "unneeded") return make("td", { "data-state": state }, sign, ` ${t(`state_${state}`)}`);
  return make("td", { "data-state": state }, sign, make("span", { class: "mha-hidden" }, t("state_unneeded")));
}

function weightCell(t, weight, kept) {
  const cell = make("td", { class: "mha-weight" });
  showInCell(cell, weight);
  if (kept) return cell;
  cell.classList.add("mha-shut");
  const cross = make("span", { "aria-hidden": "true" }, "✕");
  cell.replaceChildren(cross, make("span", { class: "mha-hidden" }, t("shut")));
  return cell;
}

/**
 * The scores of the vocabulary: the table's, attention's, and both together.
 * @param {(key: string, values?: object) => string} t
 * @param {object} recipe
 * @param {Result} now
 */
export function drawChoice(t, { vocabulary }, { table, found, logits, next }) {
  const body = vocabulary.map((text, i) => {
    const numbers = [table[i], found[i], logits[i]].map((number) => make("td", {}, two(number)));
    const row = make("tr", {}, word("row", text), ...numbers);
    if (i !== next) return row;
    row.setAttribute("aria-current", "true");
    const sign = make("span", { "aria-hidden": "true" }, `${t("sign_chosen")} `);
    row.cells[0].prepend(sign);
    row.cells[0].append(make("span", { class: "mha-hidden" }, ` ${t("chosen")}`));
    return row;
  });
  const heads = ["word", "table", "found", "sum"].map((name) => header(t(name)));
  return [
    make("caption", {}, t("choice")),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...body),
  ];
}

/**
 * What has been computed with a cache and without: at this step, and in all steps so far.
 * @param {(key: string, values?: object) => string} t
 * @param {Result} now
 */
export function drawWork(t, { cache, work }) {
  const body = ["with", "without"].map((way) => {
    const { words, scores } = work[way];
    const numbers = [words.at(-1), add(words), scores.at(-1), add(scores)];
    const row = make("tr", {}, make("th", { scope: "row" }, t(way)));
    row.append(...numbers.map((number) => make("td", {}, String(number))));
    if ((way === "with") === cache) row.setAttribute("aria-current", "true");
    return row;
  });
  const kinds = ["projected", "scores"].map((name) => header(t(name), { scope: "colgroup", colspan: 2 }));
  const spans = ["now", "in_all", "now", "in_all"].map((name) => header(t(name)));
  return [
    make("caption", {}, t("work")),
    make("thead", {}, make("tr", {}, make("td", { rowspan: 2 }), ...kinds), make("tr", {}, ...spans)),
    make("tbody", {}, ...body),
  ];
}
