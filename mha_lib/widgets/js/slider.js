/** One native slider with its name and its value. */

import { freshId, make, rich } from "./ui.js";

/**
 * @param {object} parts
 * @param {string} parts.label a text of the catalogue
 * @param {{min: number, max: number, step: number}} parts.range
 * @param {(number: number) => string} parts.say how its value reads
 * @param {(number: number) => void} parts.oninput
 * @returns {{element: HTMLElement, show(number: number): void, number(): number}}
 */
export function slider({ label, range, say, oninput }) {
  const id = freshId("slider");
  const value = make("output", { for: id });
  const input = make("input", { type: "range", id, ...range, oninput: () => oninput(Number(input.value)) });
  function show(number) {
    if (Number(input.value) !== number) input.value = String(number);
    input.setAttribute("aria-valuetext", say(number));
    value.textContent = say(number);
  }
  const element = make("div", { class: "mha-slider" }, make("label", { for: id }, rich(label)), input, value);
  return { element, show, number: () => Number(input.value) };
}
