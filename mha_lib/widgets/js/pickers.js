/** Two ways to choose one of a few values: buttons, or a list that opens. Both are native. */

import { freshId, make } from "./ui.js";

/**
 * Buttons of which one is pressed: that of the value in view.
 * @template Value
 * @param {object} parts
 * @param {Node|string} parts.label
 * @param {Value[]} parts.values
 * @param {(value: Value) => Node|string} parts.write what a value's button says
 * @param {(value: Value) => void} parts.choose
 * @returns {{element: HTMLElement, show(value: Value): void}}
 */
export function buttonPicker({ label, values, write, choose }) {
  const id = freshId("choice");
  const buttons = values.map((value) =>
    make("button", { type: "button", onclick: () => choose(value) }, write(value)),
  );
  return {
    element: make(
      "div",
      { class: "mha-picker", role: "group", "aria-labelledby": id },
      make("span", { id }, label),
      make("div", { class: "mha-buttons" }, ...buttons),
    ),
    show: (chosen) =>
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(values[i] === chosen))),
  };
}

/**
 * A list of which one value is chosen.
 * @template Value
 * @param {object} parts
 * @param {Node|string} parts.label
 * @param {Value[]} parts.values
 * @param {(value: Value) => string} parts.write what a value's line says
 * @param {(value: Value) => void} parts.choose
 * @returns {{element: HTMLElement, show(value: Value): void, offer(values: Value[]): void}}
 *   `offer` puts other values into the list.
 */
export function selectPicker({ label, values, write, choose }) {
  let offered = [];
  const select = make("select", {
    id: freshId("choice"),
    onchange: () => choose(offered[select.selectedIndex]),
  });
  function offer(others) {
    offered = others;
    select.replaceChildren(...others.map((value) => make("option", { value: String(value) }, write(value))));
  }
  offer(values);
  const element = make("div", { class: "mha-picker" }, make("label", { for: select.id }, label), select);
  return { element, offer, show: (chosen) => (select.selectedIndex = offered.indexOf(chosen)) };
}
