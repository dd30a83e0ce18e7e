/**
 * Does attention notice that the words have changed places? Move a word and compare.
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Result the two inputs, and place by place, in this order:
 * @property {number[]} order which word stands at each place
 * @property {boolean} positions whether positions were added
 * @property {number[][]} rows (N, d_model): what goes in
 * @property {number[][]} weights (N, N)
 * @property {number[][]} mix (N, d_model): what each word takes away
 * @property {boolean[]} same whether the word takes away the same where nothing has moved
 */

import { attention, matmul } from "./attention.js";
import { emptyTable, heatmap } from "./heatmap.js";
import { changer, freshId, liveLine, make, rich, root, say, scrollBox, showNumber, showWeight, translator } from "./ui.js";

const LANGUAGE = "en"; // the words'
/** The word whose row tells most, and the two that it may belong to. */
const [ASKER, FIRST, SECOND] = ["black", "dog", "cat"];
/** Two outputs that differ by less are the same, as in Python. */
const SAME = 1e-9;
/** Two weights that differ by less are about the same to a reader. */
const CLOSE = 0.05;

/**
 * What WordOrder.compute does in Python, with this page's own attention.
 * @param {{recipe: object, order: number[], positions: boolean}} state
 * @returns {Result}
 */
export function compute({ recipe: { words, x, W_Q, patterns }, order, positions }) {
  function attend(order) {
    const rows = order.map((word, place) =>
      x[word].map((number, column) => number + (positions ? patterns[place][column] : 0)),
    ); // (N, d_model)
    const { weights, head_out } = attention(matmul(rows, W_Q), rows, rows);
    return { rows, weights, mix: head_out };
  }
  const now = attend(order);
  const before = attend(words.map((_, word) => word)).mix; // (N, d_model)
  const same = order.map((word, place) =>
    now.mix[place].every((number, column) => Math.abs(number - before[word][column]) < SAME),
  );
  return { order, positions, ...now, same };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "word_order");
  const recipe = model.get("recipe");
  const { words } = recipe;
  const change = changer(model);

  const titleId = freshId("title");
  const cards = wordCards(t, words, (order) => change({ order }));
  const onchange = () => change({ positions: positions.checked });
  const positions = make("input", { type: "checkbox", id: freshId("positions"), onchange });
  const start = words.map((_, word) => word);
  const back = make("button", { type: "button", onclick: () => change({ order: start }) });
  back.append(rich(t("back", { sentence: words.join(" ") }), LANGUAGE));
  const tables = makeTables(t, recipe);
  const seen = liveLine();
  const tryThis = make("p", { class: "mha-try" });
  const demo = root(
    "heads mha-order",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    cards.element,
    make(
      "div",
      { class: "mha-row" },
      make("div", { class: "mha-choice" }, positions, make("label", { for: positions.id }, t("positions"))),
      back,
    ),
    seen,
    tables.element,
    make("p", { class: "mha-note" }, rich(t("note"), LANGUAGE)),
  );
  demo.setAttribute("aria-labelledby", titleId);
  demo.style.setProperty("--mha-head", "var(--mha-head-0)"); // there is one head
  el.append(demo);

  // A moved word and the box show at once. The rest waits for what follows from them.
  function drawControls() {
    cards.show(model.get("order"));
    positions.checked = model.get("positions");
  }

  function draw() {
    drawControls();
    /** @type {Result} */
    const now = model.get("result");
    tables.show(now);
    say(seen, rich(whatWasSeen(now, words, t, model.get("language")), LANGUAGE));
    tryThis.replaceChildren(rich(t(suggestion(now)), LANGUAGE));
  }

  const watched = [
    ["change:result", draw],
    ["change:order", drawControls],
    ["change:positions", drawControls],
  ];
  for (const [event, listener] of watched) model.on(event, listener);
  draw();
  return () => {
    for (const [event, listener] of watched) model.off(event, listener);
  };
}

/** The sentence: each word in its place, with two buttons that move it. */
function wordCards(t, words, change) {
  const hint = freshId("hint");
  /** @type {number[]} */
  let now = [];
  const cards = words.map((word, number) => {
    const [left, right] = [-1, 1].map((step) =>
      make(
        "button",
        { type: "button", "aria-label": t(step < 0 ? "left" : "right", { word }), onclick: () => move(number, step) },
        step < 0 ? "←" : "→",
      ),
    );
    const element = make(
      "li",
      { onkeydown: (event) => press(event, number) },
      make("span", { class: "mha-word", lang: LANGUAGE }, word),
      make("span", { class: "mha-moves" }, left, right),
    );
    return { element, left, right };
  });
  const list = make("ol", { class: "mha-cards", "aria-label": t("sentence"), "aria-describedby": hint });
  const element = make("div", {}, list, make("p", { class: "mha-try", id: hint }, t("hint")));

  function move(number, step) {
    const here = now.indexOf(number);
    const there = here + step;
    if (there < 0 || there >= words.length) return;
    change(now.with(here, now[there]).with(there, number));
  }

  function press(event, number) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    move(number, step);
  }

  function show(order) {
    if (order.join() !== now.join()) {
      now = order;
      // A button that moves in the page with its word loses the focus.
      const focused = list.contains(document.activeElement) ? document.activeElement : null;
      list.replaceChildren(...order.map((number) => cards[number].element));
      focused?.focus();
    }
    order.forEach((number, place) => {
      const { left, right } = cards[number];
      left.setAttribute("aria-disabled", String(place === 0));
      right.setAttribute("aria-disabled", String(place === words.length - 1));
    });
  }
  return { element, show };
}

/** What goes in, who looks at whom, what each word takes away: a row for each word. */
function makeTables(t, { words, x }) {
  // Their words are put in as they stand.
  const labels = () => words.map(() => make("span", { lang: LANGUAGE }));
  const heads = [labels(), labels(), labels(), labels()];
  const [inRows, weightRows, weightColumns, outRows] = heads;
  const columns = (letter) =>
    x[0].map((_, column) => make("span", {}, letter, make("sub", {}, String(column + 1))));
  const goesIn = emptyTable({ look: "mha-texts", rows: inRows, columns: columns("x") });
  const map = heatmap({
    caption: t("weights"),
    corner: t("corner"),
    rows: weightRows,
    columns: weightColumns,
  });
  const takesAway = emptyTable({
    look: "mha-texts",
    rows: outRows,
    columns: [...columns("o"), t("compared")],
  });
  takesAway.caption.append(rich(t("takes_away_caption", { sentence: words.join(" ") }), LANGUAGE));

  function fill({ cells }, text) {
    cells.forEach((row, i) => row.forEach((cell, j) => (cell.textContent = text(i, j))));
  }

  function show({ order, positions, rows, weights, mix, same }) {
    for (const head of heads) head.forEach((label, place) => (label.textContent = words[order[place]]));
    goesIn.caption.textContent = t(positions ? "goes_in_positions" : "goes_in");
    fill(goesIn, (i, j) => showNumber(rows[i][j]));
    map.show(weights);
    fill(takesAway, (i, j) => (j < mix[i].length ? showNumber(mix[i][j]) : t(same[i] ? "same" : "other")));
    [...takesAway.element.tBodies[0].rows].forEach((row, place) => row.toggleAttribute("data-other", !same[place]));
  }
  const boxes = [
    scrollBox(t("goes_in"), goesIn.element),
    scrollBox(t("weights"), map.element),
    scrollBox(t("takes_away"), takesAway.element),
  ];
  return { element: make("div", { class: "mha-three" }, ...boxes), show };
}

/** The state in words and numbers. @param {Result} now */
function whatWasSeen({ order, positions, weights, same }, words, t, language) {
  const inWords = new Intl.ListFormat(language, { type: "conjunction" });
  const named = (places) => inWords.format(places.map((place) => t("word", { word: words[order[place]] })));
  const sentence = words.join(" ");
  const changed = order.map((_, place) => place).filter((place) => !same[place]);
  const lines = [];
  if (isStart(order)) lines.push(t("seen_start"));
  else if (changed.length === 0) lines.push(t("seen_same", { sentence }));
  else if (changed.length === order.length) lines.push(t("seen_all_other", { sentence }));
  else lines.push(t("seen_other", { list: named(changed), sentence }));

  const places = [ASKER, FIRST, SECOND].map((word) => order.indexOf(words.indexOf(word)));
  const [asker, first, second] = places;
  const given = [first, second].map((place) => weights[asker][place]);
  const values = {
    word: ASKER,
    first: FIRST,
    second: SECOND,
    one: showWeight(given[0]),
    two: showWeight(given[1]),
    nearer: given[0] > given[1] ? FIRST : SECOND,
  };
  if (Math.abs(given[0] - given[1]) < SAME) lines.push(t("asks_same", values));
  else if (Math.abs(given[0] - given[1]) < CLOSE) lines.push(t("asks_between", values));
  else lines.push(t("asks_nearer", values));
  const now = t("now", { sentence: order.map((word) => words[word]).join(" ") });
  return [now, t(positions ? "with" : "without"), ...lines].join(" ");
}

/** What to do next, from here. @param {Result} now */
function suggestion({ order, positions }) {
  if (!positions) return isStart(order) ? "try_move" : "try_positions";
  return isStart(order) ? "try_next_to" : "try_off";
}

/** Whether the words stand as they do in the recipe. @param {number[]} order */
function isStart(order) {
  return order.every((word, place) => word === place);
}

export default { render };
