/** The table X, which stays, and the three matrices, whose every number can be changed. */

import { numberTable } from "./qkv_flow.js";
import { freshId, make, rich, scrollBox } from "./ui.js";

/**
 * @param {(key: string, values?: object) => string} t
 * @param {{recipe: object, names: string[], language: string, change: (traits: object) => void}} parts
 */
export function matrixEditors(t, { recipe, names, language, change }) {
  const x = numberTable({
    caption: rich(t("x_caption")),
    corner: "",
    rows: recipe.words.map((word) => make("span", { lang: language }, word)),
    columns: recipe.x[0].map((_, i) => mark("x", i)),
  });
  x.show(recipe.x.map((row) => row.map((number) => ({ number }))));
  const problem = make("p", { class: "mha-error", id: freshId("problem"), hidden: true });
  const editors = names.map((name) => matrixEditor(t, { name, greatest: recipe.greatest, problem, change }));

  /** @type {{query: number, matrices: Record<string, number[][]>}} */
  let now;
  const { opening } = recipe;
  const giveButton = make("button", { type: "button", onclick: same }, rich(t("same")));
  const resetButton = make("button", { type: "button", onclick: () => change(opening) }, t("reset"));
  function same() {
    change({ W_Q: now.matrices.W_K });
  }
  return {
    element: make(
      "div",
      {},
      make("p", { class: "mha-subtitle" }, t("matrices")),
      make("p", { class: "mha-try" }, rich(t("matrices_how"))),
      make(
        "div",
        { class: "mha-tables" },
        scrollBox(t("x_label"), x.element),
        make("div", { class: "mha-tables" }, ...editors.map((editor) => editor.element)),
      ),
      problem,
      make("div", { class: "mha-row" }, giveButton, resetButton),
    ),
    show: (situation) => {
      now = situation;
      for (const editor of editors) editor.show(now.matrices);
      x.mark(now.query);
    },
  };
}

/** A letter with its index: q₁. @param {string} letter @param {number} index from 0 */
function mark(letter, index) {
  return make("span", {}, letter, make("sub", {}, String(index + 1)));
}

/** One matrix as a table of number fields. */
function matrixEditor(t, { name, greatest, problem, change }) {
  const letter = name.at(-1).toLowerCase(); // W_Q makes q
  const body = make("tbody");
  const head = make("tr", {}, make("td", { class: "mha-corner" }));
  const element = make(
    "table",
    { class: "mha-matrix-editor" },
    make("caption", {}, rich(t(`caption_${name}`))),
    make("thead", {}, head),
    body,
  );
  /** @type {HTMLInputElement[][]} */
  let fields = [];
  let matrix;

  function build() {
    head.append(...matrix[0].map((_, column) => make("th", { scope: "col" }, mark(letter, column))));
    fields = matrix.map((row, i) => row.map((_, j) => field(i, j)));
    body.append(
      ...fields.map((row, i) =>
        make(
          "tr",
          {},
          make("th", { scope: "row" }, mark("x", i)),
          ...row.map((each) => make("td", {}, each)),
        ),
      ),
    );
  }

  function field(row, column) {
    const input = make("input", {
      type: "number",
      min: -greatest,
      max: greatest,
      step: "any",
      "aria-label": t("cell", { name, row: row + 1, column: column + 1 }),
      oninput: () => {
        const number = input.valueAsNumber;
        const wrong = Number.isNaN(number) || Math.abs(number) > greatest;
        complain(input, wrong && t("not_a_number", { greatest, kept: matrix[row][column] }));
        if (!wrong) change({ [name]: matrix.with(row, matrix[row].with(column, number)) });
      },
    });
    return input;
  }

  /** Say what is wrong with a field, or that nothing is. */
  function complain(input, message) {
    input.setAttribute("aria-invalid", String(Boolean(message)));
    if (message) input.setAttribute("aria-describedby", problem.id);
    else input.removeAttribute("aria-describedby");
    problem.textContent = message || "";
    problem.hidden = !message;
  }

  function show(matrices) {
    matrix = matrices[name];
    if (fields.length === 0) build();
    fields.flat().forEach((input, i) => {
      const number = matrix.flat()[i];
      if (input.valueAsNumber !== number) input.value = String(number);
      if (input.getAttribute("aria-invalid") === "true") complain(input, "");
    });
  }
  return { element, show };
}
