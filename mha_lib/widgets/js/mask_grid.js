/** The mask as a grid of checkboxes: one row per query, one column per key. */

import { freshId, make, scrollBox } from "./ui.js";

/**
 * @param {(key: string, values?: object) => string} t
 * @param {{words: string[], change: (mask: boolean[][]) => void}} parts
 */
export function maskGrid(t, { words, change }) {
  const hint = freshId("hint");
  const last = words.length - 1;
  let mask = [];
  const boxes = words.map((query, i) =>
    words.map((key, j) =>
      make("input", {
        type: "checkbox",
        "aria-label": t("box", { query, key }),
        tabindex: i + j === 0 ? 0 : -1,
        onchange: (event) => change(changed(i, j, event.target.checked)),
        onfocus: () => enter(i, j),
      }),
    ),
  );
  const word = (text) => make("span", { lang: "en" }, text);
  const header = words.map((key) => make("th", { scope: "col" }, word(key)));
  const lines = words.map((query, i) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, word(query)),
      // A label: the whole cell can be clicked, not its box alone.
      ...boxes[i].map((box) => make("td", {}, make("label", {}, box))),
    ),
  );
  const caption = make("caption");
  const table = make(
    "table",
    { class: "mha-heatmap mha-boxes", role: "grid", "aria-describedby": hint, onkeydown: move },
    caption,
    make("thead", {}, make("tr", {}, make("td", { class: "mha-corner" }, t("corner")), ...header)),
    make("tbody", {}, ...lines),
  );

  function changed(i, j, ticked) {
    return mask.map((row, each) =>
      each === i ? row.map((entry, place) => (place === j ? ticked : entry)) : row,
    );
  }

  /** One box is a stop for the Tab key; the arrow keys go on from there. */
  function enter(i, j) {
    for (const box of boxes.flat()) box.tabIndex = -1;
    boxes[i][j].tabIndex = 0;
  }

  function move(event) {
    const i = boxes.findIndex((row) => row.includes(event.target));
    if (i < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    const j = boxes[i].indexOf(event.target);
    const there = {
      ArrowLeft: [i, j - 1],
      ArrowRight: [i, j + 1],
      ArrowUp: [i - 1, j],
      ArrowDown: [i + 1, j],
      Home: [i, 0],
      End: [i, last],
    }[event.key];
    if (!there) return;
    event.preventDefault();
    boxes[there[0]]?.[there[1]]?.focus();
  }

  function show(now) {
    mask = now.mask;
    caption.textContent = t(`ticked_${now.reading}`);
    boxes.forEach((row, i) =>
      row.forEach((box, j) => {
        box.checked = mask[i][j];
      }),
    );
  }
  return {
    element: make(
      "div",
      {},
      scrollBox(t("grid"), table),
      make("p", { class: "mha-try", id: hint }, t("grid_hint")),
    ),
    show,
  };
}
