/** The picture, whole and cut into patches: how much of a patch shows is its weight. */

import { showInCell } from "./heatmap.js";
import { make } from "./ui.js";

/** How much of the picture the least weight leaves to be seen. */
const FAINTEST = 0.15;

/** Each arrow key's step over the patches, as [rows, columns]. */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** The picture, pixel by pixel. @returns {HTMLCanvasElement} */
function painted({ pixels, colours }, attributes) {
  const size = pixels.length;
  const canvas = make("canvas", { width: size, height: size, ...attributes });
  const pen = canvas.getContext("2d");
  pixels.forEach((line, row) =>
    [...line].forEach((digit, column) => {
      const channels = colours[parseInt(digit, 36)].map((number) => Math.round(number * 255));
      pen.fillStyle = `rgb(${channels.join()})`;
      pen.fillRect(column, row, 1, 1);
    }),
  );
  return canvas;
}

/** The picture as it is, with what it shows in words. */
export function wholePicture(t, recipe) {
  return painted(recipe, { class: "mha-whole", role: "img", "aria-label": t("picture") });
}

/**
 * The patches over the picture, in the order of their tokens, each with its weight.
 * @param {(key: string, values?: object) => string} t
 * @param {object} recipe
 * @param {number} size of a patch
 * @param {{describedBy: string, choose: null | ((pixel: number[]) => void)}} options
 *   where patches cannot be chosen, they are no buttons
 */
export function patchGrid(t, recipe, size, { describedBy, choose }) {
  const across = recipe.pixels.length / size;
  const patches = Array.from({ length: across * across }, (_, patch) => {
    const [row, column] = [Math.floor(patch / across), patch % across];
    const name = make("span", { class: "mha-hidden" }, t("patch", { row: row + 1, column: column + 1 }), " ");
    const weight = make("span", { class: "mha-weight" });
    const pixel = [row * size, column * size];
    const body = choose
      ? make("button", { type: "button", tabindex: -1, onclick: () => choose(pixel) }, name, weight)
      : make("span", { class: "mha-patch" }, name, weight);
    return { body, weight, item: make("li", {}, body) };
  });
  const list = make(
    "ol",
    {
      class: "mha-cut",
      "aria-label": t("patches"),
      "aria-describedby": choose ? describedBy : null,
      style: `--mha-across: ${across}`,
      onkeydown: choose ? press : null,
    },
    ...patches.map(({ item }) => item),
  );

  /** One patch is a stop for the Tab key, and the arrow keys go from there. */
  function stopAt(patch) {
    patches.forEach(({ body }, i) => body.setAttribute("tabindex", i === patch ? "0" : "-1"));
  }

  function press(event) {
    const step = STEPS[event.key];
    const here = patches.findIndex(({ body }) => body === event.target);
    if (!step || here < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const [row, column] = [Math.floor(here / across) + step[0], (here % across) + step[1]];
    if (Math.min(row, column) < 0 || Math.max(row, column) >= across) return;
    const there = row * across + column;
    stopAt(there);
    patches[there].body.focus();
  }

  function show({ asks, weights }) {
    const most = Math.max(...weights);
    patches.forEach(({ body, weight }, i) => {
      showInCell(weight, weights[i]);
      const seen = FAINTEST + (1 - FAINTEST) * (weights[i] / most);
      body.style.setProperty("--mha-seen", seen.toFixed(3));
      if (choose) body.setAttribute("aria-pressed", String(i === asks));
    });
    if (choose) stopAt(Math.max(asks, 0)); // below 0 none of the patches asks
  }
  const picture = painted(recipe, { "aria-hidden": "true" });
  return { element: make("div", { class: "mha-picture" }, picture, list), show };
}
