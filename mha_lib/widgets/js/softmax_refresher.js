/**
 * How do a few numbers become shares that sum to 1? A power of e for each, divided by the sum.
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Result
 * @property {number[]} numbers as they went in
 * @property {number[]} powers e to the power of each
 * @property {number} total the sum of the powers
 * @property {number[]} weights the powers divided by the total
 */

import { softmax } from "./attention.js";
import { showInCell } from "./heatmap.js";
import { freshId, liveLine, make, rich, root, say, scrollBox, showWeight, slider, translator } from "./ui.js";

/** Two differences that are closer are the same. */
const SAME = 1e-9;
/** What the two buttons add. */
const SHIFTS = [1, -1];

/**
 * What SoftmaxRefresher.compute does in Python, with this page's own softmax.
 * @param {{numbers: number[]}} state
 * @returns {Result}
 */
export function compute({ numbers }) {
  const powers = numbers.map(Math.exp);
  const total = powers.reduce((sum, power) => sum + power, 0);
  return { numbers, powers, total, weights: softmax(numbers) };
}

/** A number with its sign as people write it: −1. @param {number} number */
const plain = (number) => String(Number(number.toFixed(2))).replace("-", "−");
/** A power of e: two decimals, and more where these would be nearly all zeros. */
const shown = (power) => (power < 0.1 ? power.toFixed(4) : power.toFixed(2));
/** A number's name, x with its place. @param {number} place from 0 */
const named = (place) => make("span", {}, make("i", {}, "x"), make("sub", {}, String(place + 1)));

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "softmax_refresher");
  const recipe = model.get("recipe");

  function change(numbers) {
    model.set("numbers", numbers);
    model.save_changes();
  }

  const titleId = freshId("title");
  const sliders = recipe.opening.map((_, place) =>
    slider({
      label: named(place),
      min: recipe.least,
      max: recipe.greatest,
      step: recipe.step,
      oninput: (number) => change(model.get("numbers").with(place, number)),
      write: plain,
    }),
  );
  const shifts = SHIFTS.map((step) => {
    const button = make("button", { type: "button" }, t(step > 0 ? "add" : "take"));
    const moved = () => model.get("numbers").map((number) => number + step);
    const fits = () => moved().every((number) => recipe.least <= number && number <= recipe.greatest);
    button.addEventListener("click", () => fits() && change(moved()));
    return { button, fits };
  });
  const back = make("button", { type: "button", onclick: () => change(recipe.opening) }, t("reset"));
  const table = makeTable(t, recipe.opening.length);
  const seen = liveLine();
  const tryThis = make("p", { class: "mha-try" });
  const demo = root(
    "score mha-softmax",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    make("div", { class: "mha-sliders" }, ...sliders.map(({ element }) => element)),
    make("div", { class: "mha-row" }, ...shifts.map(({ button }) => button), back),
    make("div", { class: "mha-view" }, table.element, seen),
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  /** @type {Result | undefined} what was shown before, to say what has changed */
  let before;

  // A moved slider shows at once. The rest waits for what follows from it.
  function drawControls() {
    const numbers = model.get("numbers");
    sliders.forEach(({ show }, place) => show(numbers[place]));
    for (const { button, fits } of shifts) button.setAttribute("aria-disabled", String(!fits()));
  }

  function draw() {
    drawControls();
    /** @type {Result} */
    const now = model.get("result");
    const what = changed(now, before);
    table.show(now);
    say(seen, whatWasSeen(now, before, what, t));
    tryThis.replaceChildren(rich(t(suggestion(now, what))));
    before = now;
  }

  model.on("change:numbers", drawControls);
  model.on("change:result", draw);
  draw();
  return () => {
    model.off("change:numbers", drawControls);
    model.off("change:result", draw);
  };
}

/** A row for each number, with its weight as a bar too, and one for the sums. */
function makeTable(t, count) {
  // A bar says what the number beside it says: it is for the eye alone.
  const bar = (...pieces) => make("td", { class: "mha-lane", "aria-hidden": "true" }, ...pieces);
  const piece = () => make("span", { class: "mha-bar" });
  const rows = Array.from({ length: count }, (_, place) => {
    const cells = [make("td"), make("td"), make("td", { class: "mha-weight" })];
    const own = piece();
    const head = make("th", { scope: "row" }, named(place));
    return { cells, own, row: make("tr", {}, head, ...cells, bar(own)) };
  });
  const pieces = rows.map(piece);
  const total = make("td");
  const sums = make("tr", { class: "mha-sum" }, make("th", { scope: "row" }, t("sum")), make("td"));
  sums.append(total, make("td", {}, showWeight(1)), bar(...pieces));
  const power = make("th", { scope: "col" }, make("i", {}, "e"), make("sup", {}, make("i", {}, "x")));
  const head = make("tr", {}, make("td"), make("th", { scope: "col" }, make("i", {}, "x")), power);
  head.append(make("th", { scope: "col" }, t("weight")), make("td", { "aria-hidden": "true" }));
  const body = make("tbody", {}, ...rows.map(({ row }) => row), sums);
  const caption = make("caption", {}, rich(t("caption")));
  const table = make("table", {}, caption, make("thead", {}, head), body);

  /** @param {Result} result */
  function show(result) {
    rows.forEach(({ cells: [number, power, weight], own }, place) => {
      number.textContent = plain(result.numbers[place]);
      power.textContent = shown(result.powers[place]);
      showInCell(weight, result.weights[place]);
      for (const each of [own, pieces[place]]) each.style.width = `${100 * result.weights[place]}%`;
    });
    total.textContent = shown(result.total);
  }
  return { element: scrollBox(t("title"), table), show };
}

/**
 * What the reader did: nothing yet, the same to all numbers, something to one of them, or more.
 * @param {Result} now @param {Result | undefined} before
 * @returns {{kind: "start" | "shifted" | "one" | "other", by?: number, place?: number}}
 */
function changed(now, before) {
  if (!before) return { kind: "start" };
  const steps = now.numbers.map((number, place) => number - before.numbers[place]);
  const moved = steps.map((_, place) => place).filter((place) => steps[place] !== 0);
  if (moved.length === 1) return { kind: "one", place: moved[0] };
  const alike = steps.every((step) => Math.abs(step - steps[0]) < SAME);
  return alike && moved.length > 0 ? { kind: "shifted", by: steps[0] } : { kind: "other" };
}

/** The state in words and numbers. @param {Result} now @param {Result | undefined} before */
function whatWasSeen(now, before, { kind, by, place }, t) {
  const { numbers, powers, total, weights } = now;
  const top = weights.indexOf(Math.max(...weights));
  const lines = [];
  if (kind === "shifted") {
    const [size, factor] = [plain(Math.abs(by)), shown(Math.exp(Math.abs(by)))];
    lines.push(t(by > 0 ? "seen_added" : "seen_taken", { size, factor }));
  } else if (kind === "one") {
    const [from, to] = [before, now].map((each) => showWeight(each.weights[place]));
    const values = { number: place + 1, from, to };
    if (from !== to) lines.push(t(to > from ? "seen_rose" : "seen_fell", values));
  }
  const division = { power: shown(powers[top]), total: shown(total), weight: showWeight(weights[top]) };
  const highest = weights.filter((weight) => weights[top] - weight < SAME).length;
  if (highest === weights.length) lines.push(t("seen_even", { number: plain(numbers[0]), ...division }));
  else if (highest > 1) lines.push(t("seen_tied", division));
  else {
    const share = weights[top] >= 0.9 ? "seen_nearly_all" : weights[top] >= 0.5 ? "seen_most" : "seen_shared";
    lines.push(t("seen_top", { top: top + 1, ...division }), t(share));
  }
  return lines.join(" ");
}

/** What is worth trying next. @param {Result} now */
function suggestion({ weights }, { kind }) {
  if (kind === "shifted") return "try_raise";
  if (kind === "start" || kind === "other") return "try_add";
  return Math.max(...weights) >= 0.9 ? "try_zero" : "try_further";
}

export default { render };
