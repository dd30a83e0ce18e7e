/**
 * A few curves over the same steps, drawn from 0 to 1 in full, so that a small difference looks
 * small. The picture says nothing that a table beside it does not say, so it is hidden from screen
 * readers.
 *
 * @typedef {object} Curve
 * @property {string} name written at its end; none for a faint curve
 * @property {number[]} values from 0 to 1
 * @property {string} look "first", "second", or "faint" for what only shows how far luck goes
 */

import { svg } from "./ui.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [420, 230, 30, 320, 10, 195];

/** @returns {{element: Element, show(picture: {curves: Curve[], steps: number[], at: number,
 *   across: string}): void}} `steps`: what stands below; `at`: the place in view */
export function curvesPicture() {
  const element = svg("svg", { class: "mha-curves", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true", focusable: "false" });

  function show({ curves, steps, at, across }) {
    const right = (i) => LEFT + (i / (steps.length - 1)) * (RIGHT - LEFT);
    const down = (value) => BOTTOM - Math.min(1, Math.max(0, value)) * (BOTTOM - TOP);
    const line = (values) => `M${values.map((value, i) => `${right(i)},${down(value)}`).join("L")}`;
    const text = (look, x, y, words, anchor = "middle") => svg("text", { class: look, x, y, "text-anchor": anchor }, words);
    element.replaceChildren(
      svg("rect", { class: "mha-field", x: LEFT, y: TOP, width: RIGHT - LEFT, height: BOTTOM - TOP }),
      svg("path", { class: "mha-at", d: `M${right(at)},${TOP}V${BOTTOM}` }),
      ...[0, 0.5, 1].map((value) => text("mha-axis", LEFT - 6, down(value) + 4, value === 0.5 ? ".5" : String(value), "end")),
      ...steps.map((step, i) => text("mha-axis", right(i), BOTTOM + 15, String(step))),
      text("mha-axis", (LEFT + RIGHT) / 2, HEIGHT - 4, across),
      ...curves.map(({ values, look }) => svg("path", { class: `mha-curve mha-${look}`, d: line(values) })),
      ...curves.filter(({ name }) => name).map(({ values, look }) => svg("circle", { class: `mha-dot mha-${look}`, cx: right(at), cy: down(values[at]), r: 4 })),
      ...ends(curves.filter(({ name }) => name)).map(({ name, look, y }) => text(`mha-name mha-${look}`, RIGHT + 8, y, name, "start")),
    );

    /** Where names stand: beside their curves' ends, and not on one another. */
    function ends(named) {
      const places = named.map(({ name, look, values }) => ({ name, look, y: down(values.at(-1)) + 4 }));
      places.sort((a, b) => a.y - b.y);
      places.forEach((place, i) => i && (place.y = Math.max(place.y, places[i - 1].y + 16)));
      return places;
    }
  }
  return { element, show };
}
