/**
 * How sharp do the weights get as d_k grows, and what does the scale change? One query against
 * a few keys: score, scaled score, weight, and how fast the weight would move.
 *
 * @typedef {object} Result one number for each key, but for the last three
 * @property {number[]} scores the dot products
 * @property {number[]} scaled what softmax gets
 * @property {number[]} weights
 * @property {number[]} slopes how fast a weight grows with its own scaled score
 * @property {number} d_k
 * @property {number} divisor what the scores were divided by
 * @property {number} entropy
 */

import { attention } from "./attention.js";
import { showInCell } from "./heatmap.js";
import { changer, freshId, liveLine, make, rich, root, say, scrollBox, showCount, showWeight, slider, translator } from "./ui.js";

/** How many of the products in a score are written out. */
const WRITTEN = 4;

/**
 * What ScoreStepper.compute does in Python, with this page's own attention.
 * @param {{recipe: object, d_k: number, scale: boolean, temperature: number}} state
 * @returns {Result}
 */
export function compute({ recipe, d_k, scale, temperature }) {
  const q = [recipe.query.slice(0, d_k)]; // (1, d_k)
  const k = recipe.keys.map((key) => key.slice(0, d_k)); // (S, d_k)
  const divisor = (scale ? Math.sqrt(d_k) : 1) * temperature;
  const [scores] = attention(q, k, k, { scale: 1 }).scores; // (S)
  const traced = attention(q, k, k, { scale: 1 / divisor });
  const [scaled, weights] = [traced.scores[0], traced.weights[0]]; // (S), (S)
  return {
    d_k,
    divisor,
    scores,
    scaled,
    weights,
    slopes: weights.map((weight) => weight * (1 - weight)), // (S), the diagonal of the Jacobian
    entropy: weights.reduce((sum, each) => (each > 0 ? sum - each * Math.log(each) : sum), 0),
  };
}

/** A number with its sign as people write it: −1.20. */
const signed = (number, digits) => number.toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−");
/** The same where it follows another sign: (−1.2). */
const inProduct = (number) => (number < 0 ? `(${signed(number, 1)})` : signed(number, 1));
/** Without zeros that say nothing: 8, 0.25, 5.66. */
const short = (number) => String(Number(number.toFixed(2)));
/** Three decimals as readers see them, or null for less than these can show. */
const thousandths = (number) => (number < 0.0005 ? null : number.toFixed(3).replace(/^0/, ""));
/** A number that was written with a sign. */
const read = (text) => Number(text.replace("−", "-"));
/** Whether what stands on the right is all of it, or rounded. */
const sign = (left, right) => (Math.abs(left - read(right)) < 1e-9 ? "=" : "≈");
/** The same for a number that may be too small to show: = .25, ≈ .244 or < .001. */
const outcome = (left, shown) => (shown === null ? "< .001" : `${sign(left, shown)} ${shown}`);

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "score_stepper");
  const recipe = model.get("recipe");
  const change = changer(model);

  const titleId = freshId("title");
  const controls = makeControls(t, recipe, change);
  const table = makeTable(t, recipe.keys.length, change);
  const seen = liveLine();
  const tryThis = make("p", { class: "mha-try" });
  const worked = makeWorkedOut(t, recipe, model.get("language"));
  const demo = root(
    "score",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    controls.element,
    make("div", { class: "mha-view" }, table.element, seen),
    worked.element,
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  function draw() {
    /** @type {Result} */
    const result = model.get("result");
    const inputs = ["d_k", "scale", "temperature", "key"].map((name) => [name, model.get(name)]);
    const now = Object.fromEntries(inputs);
    controls.show(now);
    table.show(result, now.key);
    say(seen, rich(whatWasSeen(result, t)));
    tryThis.replaceChildren(rich(t(suggestion(now))));
    worked.show(result, now.key);
  }

  const events = ["result", "d_k", "scale", "temperature", "key"].map((name) => `change:${name}`);
  for (const event of events) model.on(event, draw);
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

/** A slider over a list of values, which it says as they are. */
function sliderOver({ label, values, oninput }) {
  let now; // what is written: from Python a value may come that lies between two of the list
  const places = slider({
    label: rich(label),
    max: values.length - 1,
    oninput: (place) => oninput(values[place]),
    write: () => String(now),
  });
  function show(number) {
    now = number;
    places.show(values.findLastIndex((each) => each <= number));
  }
  return { element: places.element, show };
}

function makeControls(t, recipe, change) {
  const [least, greatest] = recipe.temperatures;
  const steps = Math.round((greatest - least) / least);
  const temperatures = Array.from({ length: steps + 1 }, (_, i) => least * (i + 1));
  const width = sliderOver({ label: t("d_k"), values: recipe.widths, oninput: (d_k) => change({ d_k }) });
  const warmth = sliderOver({
    label: t("temperature"),
    values: temperatures,
    oninput: (temperature) => change({ temperature }),
  });
  const onchange = () => change({ scale: scale.checked });
  const scale = make("input", { type: "checkbox", id: freshId("scale"), onchange });
  const label = make("label", { for: scale.id }, rich(t("scale")));
  const choice = make("div", { class: "mha-choice" }, scale, label);
  return {
    element: make("div", { class: "mha-sliders" }, width.element, choice, warmth.element),
    show(now) {
      width.show(now.d_k);
      scale.checked = now.scale;
      warmth.show(now.temperature);
    },
  };
}

/** One row for each key: pressing a key works it out below. */
function makeTable(t, count, change) {
  const scaledHead = make("th", { scope: "col" });
  const rows = Array.from({ length: count }, (_, key) => {
    const name = t("key", { number: key + 1 });
    const button = make("button", { type: "button", onclick: () => change({ key }) }, name);
    const cells = {
      scores: make("td"),
      scaled: make("td"),
      weights: make("td", { class: "mha-weight" }),
      slopes: make("td"),
    };
    const row = make("tr", {}, make("th", { scope: "row" }, button), ...Object.values(cells));
    return { button, cells, row };
  });
  const head = make("tr", {}, make("td", {}, t("corner")));
  head.append(make("th", { scope: "col" }, rich(t("score"))), scaledHead);
  head.append(...["weight", "slope"].map((name) => make("th", { scope: "col" }, rich(t(name)))));
  const caption = make("caption", {});
  const body = make("tbody", {}, ...rows.map(({ row }) => row));
  const table = make("table", {}, caption, make("thead", {}, head), body);

  /** @param {Result} result @param {number} selected */
  function show({ d_k, divisor, ...columns }, selected) {
    caption.replaceChildren(rich(t("caption", { d_k, divisor: short(divisor) })));
    scaledHead.replaceChildren(rich(t("scaled", { divisor: short(divisor) })));
    rows.forEach(({ button, cells, row }, key) => {
      button.setAttribute("aria-pressed", String(key === selected));
      row.toggleAttribute("data-selected", key === selected);
      cells.scores.textContent = signed(columns.scores[key], 2);
      cells.scaled.textContent = signed(columns.scaled[key], 2);
      showInCell(cells.weights, columns.weights[key]);
      cells.slopes.textContent = thousandths(columns.slopes[key]) ?? "< .001";
    });
  }
  return { element: scrollBox(t("title"), table), show };
}

/** The state in words and numbers. @param {Result} result */
function whatWasSeen({ d_k, divisor, scaled, weights, slopes, entropy }, t) {
  const greatest = Math.max(...weights);
  const steepest = Math.max(...slopes);
  // A weight that rounds to 1.00 is not all there is.
  const shown = greatest > 0.995 && greatest < 1 ? t("over", { weight: ".99" }) : showWeight(greatest);
  const top = weights.indexOf(greatest) + 1;
  const divided = divisor === 1 ? "seen_plain" : "seen_divided";
  const how = t(divided, { d_k, divisor: short(divisor) });
  const range = { least: signed(Math.min(...scaled), 1), most: signed(Math.max(...scaled), 1) };
  const shares = { nearly_all: 0.9, most: 0.6, shared: 0.25, even: 0 };
  const [share] = Object.entries(shares).find(([, least]) => greatest >= least);
  const grip = steepest >= 0.1 ? "moves" : steepest >= 0.02 ? "moves_little" : "stuck";
  const spread = { entropy: entropy.toFixed(2), limit: Math.log(weights.length).toFixed(2) };
  const slope = thousandths(steepest) ?? t("less", { slope: ".001" });
  return [
    how,
    t("seen_range", range),
    t(`seen_${share}`, { top, weight: shown }),
    t("seen_entropy", spread),
    t(`seen_${grip}`, { slope, move: thousandths(steepest / 10) ?? "" }),
  ].join(" ");
}

/** What is worth trying next. */
function suggestion({ d_k, scale, temperature }) {
  if (temperature !== 1) return scale ? "try_cooler" : "try_same";
  if (scale) return "try_widths";
  return d_k <= 8 ? "try_wider" : "try_scale";
}

/** One key from its dot product to its weight and slope, to be redone by hand. */
function makeWorkedOut(t, recipe, language) {
  const title = make("p", { class: "mha-subtitle", "aria-live": "polite" });
  const lines = make("ol");

  /** @param {Result} result @param {number} key */
  function show({ d_k, divisor, scores, scaled, weights, slopes }, key) {
    const products = Array.from(
      { length: WRITTEN },
      (_, i) => `${inProduct(recipe.query[i])} × ${inProduct(recipe.keys[key][i])}`,
    ).join(" + ");
    const rest = d_k - WRITTEN;
    const more = rest ? t("work_more", { rest: showCount(rest, language) }) : "";
    const greatest = Math.max(...scaled);
    const powers = scaled.map((each) => Math.exp(each - greatest));
    const total = powers.reduce((sum, each) => sum + each, 0).toFixed(3);
    const [score, mine, largest, below] = [scores[key], scaled[key], greatest, scaled[key] - greatest].map(
      (number) => signed(number, 2),
    );
    // Three decimals: with two, .99 × (1 − .99) would be far from what it stands for.
    const weight = weights[key].toFixed(3).replace(/^0/, "");
    const factor = Number(weight);
    const texts = [
      t("work_score", { products: `${products}${more}`, score }),
      t("work_scaled", {
        score,
        divisor: short(divisor),
        sign: sign(scores[key] / divisor, mine),
        scaled: mine,
      }),
      t("work_power", {
        scaled: mine,
        largest: greatest < 0 ? `(${largest})` : largest,
        sign: sign(read(mine) - read(largest), below),
        below,
        power: outcome(powers[key], thousandths(powers[key])),
      }),
      t("work_weight", { total, weight }),
      t("work_slope", { weight, slope: outcome(factor * (1 - factor), thousandths(slopes[key])) }),
    ];
    say(title, rich(t("worked", { number: key + 1, weight: showWeight(weights[key]) })));
    lines.replaceChildren(...texts.map((text) => make("li", {}, rich(text))));
  }
  return { element: make("div", { class: "mha-worked" }, title, lines), show };
}

export default { render };
