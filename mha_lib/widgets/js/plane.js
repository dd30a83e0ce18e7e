/**
 * A flat picture of points with names. It says nothing that a demo does not say in words or in
 * a table beside it, so it is hidden from screen readers.
 *
 * @typedef {object} Point
 * @property {number} key what `onpick` is told
 * @property {string} name
 * @property {string} [language] the name's
 * @property {number} x to the right
 * @property {number} y upwards
 * @property {number} depth how deep its colour is, from 0 to 1
 */

import { svg } from "./ui.js";

/** The picture's side, its field from edge to edge, and a letter's size, all in its own units. */
const [SIDE, LEFT, RIGHT, TOP, BOTTOM] = [360, 24, 354, 6, 336];
const [LINE, LETTER, DOT, RING] = [16, 8.4, 5, 9];
/** Dots that are closer than this are one to the eye. */
const SAME = 3;

/** How wide a name is about, in bold too, with wide signs counted twice. @param {string} text */
function widthOf(text) {
  return [...text].reduce((sum, sign) => sum + LETTER * (sign > "\u2e7f" ? 2 : 1), 0);
}

/**
 * @param {(key: number) => void} onpick called when a point or its name is pressed
 * @returns {{element: Element, show(picture: {points: Point[], selected: number | null,
 *   line?: [number, number], least: number, greatest: number, across: string, up: string}): void}}
 *   `line`: the places of two points to be joined; `least` and `greatest`: the field's ends.
 */
export function plane(onpick) {
  const element = svg("svg", {
    class: "mha-plane",
    viewBox: `0 0 ${SIDE} ${SIDE}`,
    "aria-hidden": "true",
    focusable: "false",
  });

  function show({ points, selected, line, least, greatest, across, up }) {
    const part = (number) => (number - least) / (greatest - least);
    const right = (x) => LEFT + part(x) * (RIGHT - LEFT);
    const down = (y) => BOTTOM - part(y) * (BOTTOM - TOP);
    const dots = points.map((point) => ({ ...point, at: [right(point.x), down(point.y)] }));
    const middle = (LEFT + RIGHT) / 2;
    element.replaceChildren(
      svg("rect", { class: "mha-field", x: LEFT, y: TOP, width: RIGHT - LEFT, height: BOTTOM - TOP }),
      svg("path", { class: "mha-zero", d: `M${right(0)},${TOP}V${BOTTOM}M${LEFT},${down(0)}H${RIGHT}` }),
      svg("text", { class: "mha-axis", x: middle, y: SIDE - 8, "text-anchor": "middle" }, `${across} →`),
      svg(
        "text",
        { class: "mha-axis", "text-anchor": "middle", transform: `translate(16 ${middle - 18}) rotate(-90)` },
        `${up} →`,
      ),
    );
    if (line) element.append(svg("path", { class: "mha-link", d: `M${line.map((i) => dots[i].at).join("L")}` }));
    // The selected one last, so that it lies on top.
    for (const dot of dots.toSorted((a, b) => (a.key === selected) - (b.key === selected))) {
      const [cx, cy] = dot.at;
      if (dot.key === selected) element.append(svg("circle", { class: "mha-ring", cx, cy, r: RING }));
      const circle = svg("circle", { class: "mha-dot", "data-key": dot.key, cx, cy, r: DOT });
      circle.style.setProperty("--mha-weight", String(dot.depth));
      circle.addEventListener("click", () => onpick(dot.key));
      element.append(circle);
    }
    element.append(...labels(dots, selected, onpick));
  }
  return { element, show };
}

/** The points' names, where they cover neither each other nor a dot. */
function labels(dots, selected, onpick) {
  const groups = [];
  for (const dot of dots) {
    const group = groups.find(({ at }) => Math.hypot(at[0] - dot.at[0], at[1] - dot.at[1]) < SAME);
    if (group) group.members.push(dot);
    else groups.push({ at: dot.at, members: [dot] });
  }
  const taken = groups.map(({ at: [x, y] }) => ({ left: x - RING, right: x + RING, top: y - DOT, bottom: y + DOT }));
  return groups.map(({ at, members }) => {
    const width = widthOf(members.map(({ name }) => name).join(", "));
    const box = freeBox(at, width, taken);
    taken.push(box);
    // A name is narrower than its box: it keeps to the dot's side.
    const side = box.left > at[0] ? { x: box.left } : { x: box.right, "text-anchor": "end" };
    const text = svg("text", { ...side, y: box.bottom - 4 });
    members.forEach(({ key, name, language }, i) => {
      if (i > 0) text.append(", ");
      const label = svg("tspan", { "data-key": key, ...(language && { lang: language }) }, name);
      label.toggleAttribute("data-selected", key === selected);
      label.addEventListener("click", () => onpick(key));
      text.append(label);
    });
    return text;
  });
}

/** The first place beside a dot that nothing has taken, or else the first of all. */
function freeBox([x, y], width, taken) {
  const gap = RING + 4;
  const places = [0, -LINE, LINE, -2 * LINE, 2 * LINE].flatMap((shift) => [
    [x + gap, y + shift],
    [x - gap - width, y + shift],
    ...(Math.abs(shift) === LINE ? [[x - width / 2, y + shift]] : []),
  ]);
  const boxes = places.map(([left, middle]) => ({
    left,
    right: left + width,
    top: middle - LINE / 2,
    bottom: middle + LINE / 2,
  }));
  // A name keeps off the sides' lines.
  const inside = boxes.filter(
    (box) => box.left >= LEFT + 4 && box.right <= RIGHT - 4 && box.top >= TOP && box.bottom <= BOTTOM,
  );
  const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
  return inside.find((box) => taken.every((other) => apart(box, other))) ?? inside[0] ?? boxes[0];
}
