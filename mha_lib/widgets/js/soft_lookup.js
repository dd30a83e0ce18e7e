/**
 * What is soft about this lookup? One query, a dictionary of four keys, three ways to look up.
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Result
 * @property {number[]} query (d_k)
 * @property {number} scale how sharp the soft lookup is
 * @property {number[]} scores one for each key
 * @property {number[]} weights one for each key
 * @property {number} answer the values mixed by the weights
 * @property {number} exact the key that is the query, or -1
 * @property {number[]} nearest the keys nearest to the query
 */

import { attention } from "./attention.js";
import { showInCell } from "./heatmap.js";
import { plane } from "./plane.js";
import { changer, freshId, liveLine, make, rich, root, say, scrollBox, showWeight, slider, translator } from "./ui.js";

/** Keys whose distances differ by less are equally near, as in Python. */
const SAME = 1e-9;
/** Answers that differ by less look the same: they are shown with one decimal. */
const CLOSE = 0.05;
const NEARLY_ALL = 0.95;

/**
 * What SoftLookup.compute does in Python, with this page's own attention.
 * @param {{recipe: object, query: number[], scale: number}} state
 * @returns {Result}
 */
export function compute({ recipe: { keys, values }, query, scale }) {
  const column = values.map((value) => [value]); // (S, 1)
  const { scores, weights, head_out } = attention([query], keys, column, { scale });
  const far = keys.map((key) => Math.hypot(key[0] - query[0], key[1] - query[1]));
  const least = Math.min(...far);
  return {
    query,
    scale,
    scores: scores[0],
    weights: weights[0],
    answer: head_out[0][0],
    exact: far.indexOf(0),
    nearest: far.map((_, place) => place).filter((place) => far[place] - least < SAME),
  };
}

/** A number as people write it, with at most so many decimals: −0.8, 14. */
const plain = (number, decimals) => String(Number(number.toFixed(decimals)) + 0).replace("-", "−");
/** A score: two decimals, with its sign. */
const shownScore = (score) => (Math.abs(score) < 0.005 ? "0.00" : score.toFixed(2).replace("-", "−"));

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "soft_lookup");
  const recipe = model.get("recipe");
  const names = recipe.names.map((name) => t(`key_${name}`));
  const change = changer(model);

  const titleId = freshId("title");
  const controls = makeControls(t, recipe, model, change);
  const picture = plane((key) => key in recipe.keys && change({ query: recipe.keys[key] }));
  const answers = makeAnswers(t);
  const table = makeTable(t, recipe, names);
  const seen = liveLine();
  const tryThis = make("p", { class: "mha-try" });
  const map = make("div", {}, picture.element);
  const demo = root(
    "score mha-lookup",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    controls.element,
    make("div", { class: "mha-view" }, map, make("div", {}, answers.element, seen)),
    table.element,
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  function draw() {
    controls.show();
    /** @type {Result} */
    const now = model.get("result");
    const places = recipe.keys.map((key, i) => ({ name: names[i], at: key, depth: now.weights[i] }));
    picture.show({
      points: [...places, { name: t("query"), at: now.query, depth: 0 }].map(({ name, at: [x, y], depth }, key) => ({
        key,
        name,
        x,
        y,
        depth,
      })),
      selected: recipe.keys.length,
      least: -1.2,
      greatest: 1.2,
      across: t("across"),
      up: t("up"),
    });
    const facts = factsOf(now, recipe);
    answers.show(now, facts, names);
    table.show(now);
    say(seen, rich(whatWasSeen(now, facts, names, t, model.get("language"))));
    tryThis.replaceChildren(rich(t(suggestion(now, facts))));
  }

  const watched = [
    ["change:result", draw],
    ["change:query", controls.show],
    ["change:scale", controls.show],
  ];
  for (const [event, listener] of watched) model.on(event, listener);
  draw();
  return () => {
    for (const [event, listener] of watched) model.off(event, listener);
  };
}

/** Where the query points, and how sharp the lookup is. */
function makeControls(t, { greatest, step, scales }, model, change) {
  const axes = ["query_x", "query_y"].map((label, axis) =>
    slider({
      label: rich(t(label)),
      min: -greatest,
      max: greatest,
      step,
      write: (number) => plain(number, 2),
      oninput: (number) => change({ query: model.get("query").with(axis, number) }),
    }),
  );
  // Its steps are places in a list; from Python a scale may lie between two of them.
  const placeOf = (scale) => scales.findLastIndex((each) => each <= scale);
  const sharpness = slider({
    label: rich(t("sharpness")),
    max: scales.length - 1,
    write: () => plain(model.get("scale"), 2),
    oninput: (place) => change({ scale: scales[place] }),
  });
  function show() {
    model.get("query").forEach((number, axis) => axes[axis].show(number));
    sharpness.show(placeOf(model.get("scale")));
  }
  const element = make("div", { class: "mha-sliders" }, ...[...axes, sharpness].map((each) => each.element));
  return { element, show };
}

/** What follows for the reader: whether one key is nearest, and whether soft and hard agree. */
function factsOf({ answer, weights, exact, nearest }, { values }) {
  const tied = nearest.length > 1;
  const hard = values[nearest[0]];
  // A blend may happen to be the nearest key's value: its weight has to be nearly all, too.
  const agree = !tied && weights[nearest[0]] > NEARLY_ALL && Math.abs(answer - hard) < CLOSE;
  return { tied, hard, agree, hit: exact >= 0 };
}

/** The three answers, one above the other. */
function makeAnswers(t) {
  const lines = ["exact", "nearest", "soft"].map((name) => {
    const cell = make("td");
    return { cell, row: make("tr", {}, make("th", { scope: "row" }, t(`answer_${name}`)), cell) };
  });
  const body = make("tbody", {}, ...lines.map(({ row }) => row));
  const element = make("table", { class: "mha-answers" }, make("caption", {}, t("answers")), body);

  function show({ answer, nearest }, { tied, hard, hit }, names) {
    const texts = [
      hit ? t("degrees", { number: plain(hard, 1) }) : "`KeyError`",
      t(tied ? "degrees_first" : "degrees_of", { number: plain(hard, 1), key: names[nearest[0]] }),
      t("degrees", { number: plain(answer, 1) }),
    ];
    lines.forEach(({ cell }, i) => cell.replaceChildren(rich(texts[i])));
  }
  return { element, show };
}

/** From key to answer: a row for each key, and one for the sums. */
function makeTable(t, { keys, values }, names) {
  const headings = ["key", "vector", "score", "weight", "value", "share"];
  const head = make("tr", {}, ...headings.map((name) => make("th", { scope: "col" }, rich(t(`column_${name}`)))));
  const rows = names.map((name, i) => {
    const [score, weight, share] = [make("td"), make("td", { class: "mha-weight" }), make("td")];
    const vector = make("td", {}, `[${keys[i].map((number) => plain(number, 1)).join(", ")}]`);
    const value = make("td", {}, plain(values[i], 1));
    const row = make("tr", {}, make("th", { scope: "row" }, name), vector, score, weight, value, share);
    return { row, score, weight, share };
  });
  const total = make("td");
  const sums = make("tr", { class: "mha-sum" }, make("th", { scope: "row" }, t("sum")), make("td"), make("td"));
  sums.append(make("td", {}, showWeight(1)), make("td"), total);
  const caption = make("caption", {});
  const table = make("table", {}, caption, make("thead", {}, head), make("tbody", {}, ...rows.map((r) => r.row), sums));

  /** @param {Result} now */
  function show(now) {
    const query = `[${now.query.map((number) => plain(number, 2)).join(", ")}]`;
    caption.replaceChildren(rich(t("caption", { query, scale: plain(now.scale, 2) })));
    rows.forEach(({ score, weight, share }, i) => {
      score.textContent = shownScore(now.scores[i]);
      showInCell(weight, now.weights[i]);
      share.textContent = (now.weights[i] * values[i]).toFixed(2);
    });
    total.textContent = now.answer.toFixed(2);
  }
  return { element: scrollBox(t("title"), table), show };
}

/** The state in words and numbers. @param {Result} now */
function whatWasSeen({ scale, answer, exact, nearest, weights }, { tied, agree, hit }, names, t, language) {
  const inWords = new Intl.ListFormat(language, { type: "conjunction" });
  const top = weights.indexOf(Math.max(...weights));
  const values = {
    key: names[hit ? exact : nearest[0]],
    list: inWords.format(nearest.map((place) => `*${names[place]}*`)),
    top: names[top],
    weight: showWeight(weights[top]),
    answer: plain(answer, 1),
  };
  const lines = [t(hit ? "seen_hit" : "seen_miss", values)];
  if (tied) lines.push(t("seen_tied", values));
  if (scale === 0) lines.push(t("seen_even", values));
  else if (agree) lines.push(t("seen_agree", values));
  else if (tied) lines.push(t("seen_between", values));
  else lines.push(t("seen_blend", values));
  return lines.join(" ");
}

/** What is worth trying next. @param {Result} now */
function suggestion({ scale }, { tied, agree, hit }) {
  if (agree) return "try_walk";
  if (tied) return scale >= 16 ? "try_step" : "try_tied";
  return hit ? "try_hit" : "try_sharpen";
}

export default { render };
