/**
 * The tables of the tiled softmax: all keys, the tile that is there now, and what is kept.
 *
 * @typedef {import("./tiled_softmax.js").Result} Result
 * @typedef {object} Situation what there is to show
 * @property {Result} result
 * @property {number} tile keys in a tile
 * @property {number} tiles how many there are
 * @property {number} place the tile that has just been added, from 0
 * @property {number[]} keys which of the keys, as they come, are in it
 */

import { make, rich } from "./ui.js";

export const add = (numbers) => numbers.reduce((sum, each) => sum + each, 0);

/** A number as the demo shows it: whole ones as they are, others with three decimals. */
export const show = (number) =>
  Number.isInteger(number) ? String(number).replace("-", "−") : number.toFixed(3).replace(/^0\./, ".");
/** Three decimals always: a sum that happens to be whole is a sum all the same. */
export const three = (number) => number.toFixed(3).replace(/^0\./, ".");

const header = (scope, ...children) => make("th", { scope }, ...children);

/** All keys, as they are cut into tiles: done, now, waiting. @param {(key: string, values?: object) => string} t @param {Situation} now */
export function drawStrip(t, { result, tile, tiles, place }) {
  const state = (each) => (each < place ? "done" : each === place ? "now" : "waiting");
  const head = make("tr", {}, header("row", t("strip_tile")));
  for (let each = 0; each < tiles; each += 1) {
    const span = Math.min(tile, result.keys.length - each * tile);
    const mark = make("span", { "aria-hidden": "true" }, t(`mark_${state(each)}`));
    const words = make("span", { class: "mha-hidden" }, t(`strip_${state(each)}`));
    head.append(make("th", { scope: "colgroup", colspan: span, "data-state": state(each) }, mark, ` ${each + 1} `, words));
  }
  const line = (name, label, text) =>
    make(
      "tr",
      { class: `mha-${name}` },
      header("row", rich(label)),
      ...result.keys.map((_, i) =>
        make("td", { "data-state": state(Math.floor(i / tile)), "data-first": i % tile === 0 }, text(i)),
      ),
    );
  return [
    make("caption", {}, t("strip")),
    make("thead", {}, head),
    make(
      "tbody",
      {},
      line("key", t("key"), (i) => String(result.keys[i] + 1)),
      line("score", t("score"), (i) => show(result.scores[i])),
      line("value", t("value"), (i) => show(result.values[i])),
    ),
  ];
}

/** The tile that is there now: each key's power of e, and what it adds. */
export function drawWork(t, { result, place, keys }) {
  const maximum = result.maxima[place];
  const columns = ["key", "score", "less", "power", "value", "product"];
  const rows = keys.map((i) => {
    const [score, power, value] = [result.scores[i], result.powers[i], result.values[i]];
    const cells = [show(score), show(score - maximum), three(power), show(value), three(power * value)];
    return make("tr", {}, header("row", String(result.keys[i] + 1)), ...cells.map((text) => make("td", {}, text)));
  });
  const adds = added(result, keys);
  const sums = ["", "", three(adds.sum), "", three(adds.weighted)];
  const foot = make("tr", {}, header("row", t("together")), ...sums.map((text) => make("td", {}, text)));
  return [
    make("caption", {}, rich(t("work_caption", { tile: place + 1 }))),
    make("thead", {}, make("tr", {}, ...columns.map((name) => header("col", rich(t(name)))))),
    make("tbody", {}, ...rows),
    make("tfoot", {}, foot),
  ];
}

/** What a tile adds to the two sums. */
const added = ({ powers, values }, keys) => ({
  sum: add(keys.map((i) => powers[i])),
  weighted: add(keys.map((i) => powers[i] * values[i])),
});

/** What was kept before this tile, what became of it, and what is kept after. */
export function drawRunning(t, { result, place, keys }) {
  const adds = added(result, keys);
  const factor = result.factors[place];
  const first = place === 0;
  const before = (name) => (first ? null : result[name][place - 1]);
  const largest = Math.max(...keys.map((i) => result.scores[i]));
  const line = (name, label, after, ...cells) =>
    make(
      "tr",
      { class: `mha-${name}` },
      header("row", rich(label)),
      ...cells.map((text) => make("td", {}, text ?? t("nothing"))),
      make("td", { class: "mha-after" }, after),
    );
  const summed = (name, number) => {
    const was = before(name);
    const scaled = first ? null : three(factor * was);
    return [three(result[name][place]), first ? null : three(was), scaled, three(number)];
  };
  const heads = [t("kept"), t("before"), first ? t("rescaled_none") : t("rescaled", { factor: show(factor) }), t("adds"), t("after")];
  return [
    make("caption", {}, t("running")),
    make("thead", {}, make("tr", {}, ...heads.map((text) => header("col", rich(text))))),
    make(
      "tbody",
      {},
      line("maximum", t("maximum"), show(result.maxima[place]), first ? null : show(before("maxima")), "", show(largest)),
      line("sum", t("sum"), ...summed("sums", adds.sum)),
      line("weighted", t("weighted"), ...summed("weighted", adds.weighted)),
      line(
        "output",
        t("output"),
        three(result.outputs[place]),
        first ? null : three(before("outputs")),
        first ? null : three(before("outputs")),
        "",
      ),
    ),
  ];
}
