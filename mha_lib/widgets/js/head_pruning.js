/**
 * Heads of a real model go, a step at a time: what is left of a task, and of a word's meanings.
 *
 * @typedef {object} Result
 * @property {[number, number][]} off layer and head of those that are off
 * @property {number} task @property {number} gap
 */

import { curvesPicture } from "./curves.js";
import { emptyTable } from "./heatmap.js";
import { buttonPicker } from "./pickers.js";
import { changer, freshId, liveLine, make, rich, root, say, scrollBox, showWeight, slider, translator } from "./ui.js";

const ORDERS = ["greedy", "one_shot", "random"];
const three = (number) => number.toFixed(3).replace(/^0\./, ".");

/** What HeadPruning.compute does in Python. @returns {Result} */
export function compute({ recipe, order, steps }) {
  const { heads, task, gap } = recipe.orders[order];
  return { off: heads.slice(0, steps * recipe.step), task: task[steps], gap: gap[steps] };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "head_pruning");
  const recipe = model.get("recipe");
  const change = changer(model);
  const titleId = freshId("title");
  const counts = recipe.orders.greedy.task.map((_, i) => i * recipe.step);

  const order = buttonPicker({ label: t("order"), values: ORDERS, write: (name) => t(`order_${name}`), choose: (value) => change({ order: value }) });
  const off = slider({
    label: t("off"),
    max: counts.length - 1,
    oninput: (steps) => change({ steps }),
    write: (steps) => t("off_of", { count: counts[steps], all: counts.at(-1) }),
  });
  const explains = make("p", { class: "mha-try" });
  const seen = liveLine();
  const picture = curvesPicture();
  const heads = headsTable(t, recipe);
  const numbers = emptyTable({ look: "mha-left", caption: t("numbers"), corner: t("heads_off"), rows: [t("task"), t("gap")], columns: counts.map(String) });
  const demo = root(
    "heads mha-pruning",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    make("p", { class: "mha-try" }, rich(t("try"))),
    order.element,
    explains,
    off.element,
    seen,
    make("div", { class: "mha-view" }, picture.element, heads.element),
    scrollBox(t("numbers"), numbers.element),
    make("p", { class: "mha-note" }, rich(t("note", { pairs: recipe.pairs }))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  function draw() {
    const [name, steps, result] = ["order", "steps", "result"].map((each) => model.get(each));
    const all = recipe.orders[name];
    const share = (values) => values.map((value) => value / values[0]);
    order.show(name);
    off.show(steps);
    explains.replaceChildren(rich(t(`how_${name}`)));
    const others = name === "random" ? recipe.lots : [];
    picture.show({
      curves: [
        ...others.flatMap(({ task, gap }) => [task, gap]).map((values) => ({ look: "faint", values: share(values) })),
        { name: t("task"), look: "first", values: share(all.task) },
        { name: t("gap"), look: "second", values: share(all.gap) },
      ],
      steps: counts,
      at: steps,
      across: t("across"),
    });
    heads.show(result.off);
    [all.task, all.gap].forEach((values, i) =>
      values.forEach((value, j) => {
        const cell = numbers.cells[i][j];
        if (cell.textContent !== three(value)) cell.textContent = three(value);
        cell.toggleAttribute("data-here", j === steps);
      }),
    );
    const values = { count: result.off.length, task: three(result.task), gap: three(result.gap), kept: percent(result.task, all.task[0]), left: percent(result.gap, all.gap[0]) };
    say(seen, rich(t(steps === 0 ? "seen_none" : steps === counts.length - 1 ? "seen_all" : "seen", values)));
  }
  const percent = (part, whole) => String(Math.round((100 * part) / whole));
  model.on("change:result", draw);
  draw();
  return () => model.off("change:result", draw);
}

/** All heads as a table: a sign for each that is off. */
function headsTable(t, recipe) {
  const count = (length) => Array.from({ length }, (_, i) => String(i));
  const { element, cells } = emptyTable({ look: "mha-which", caption: t("which"), corner: t("corner"), rows: count(recipe.layers), columns: count(recipe.heads) });
  // The browser lays a table out anew for each cell that is written: only those that change are.
  const places = cells.flatMap((row, layer) => row.map((cell, head) => ({ cell, name: String([layer, head]), isOff: null })));
  function show(off) {
    const gone = new Set(off.map(String));
    for (const place of places.filter(({ name, isOff }) => gone.has(name) !== isOff)) {
      place.isOff = gone.has(place.name);
      const sign = make("span", { "aria-hidden": "true" }, place.isOff ? "×" : "");
      place.cell.replaceChildren(sign, make("span", { class: "mha-hidden" }, t(place.isOff ? "is_off" : "is_on")));
      place.cell.toggleAttribute("data-off", place.isOff);
    }
  }
  return { element: scrollBox(t("which"), element), show };
}

export default { render };
