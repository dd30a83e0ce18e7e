/**
 * Draws a tensor as matrices: the last two sizes are rows and columns, the size before
 * them counts the matrices. Colour says which head a number belongs to, a thick outline
 * which numbers are token 1's.
 */

import { make, svg } from "./ui.js";

const WIDEST = 300;
const LARGEST_CELL = 16;

/** Beyond these sizes a drawing is a grey smear, and words say it better. */
export function canDraw({ N, d_model, h }) {
  return N <= 12 && d_model <= 64 && h <= 8;
}

/**
 * How each kind of tensor is drawn: its matrices, which head a cell belongs to
 * (-1: to none in particular), and where token 1 is, as [row, column, rows, columns].
 */
const LOOKS = {
  plain: ({ N, d_model }) => ({
    matrices: 1,
    rows: N,
    columns: d_model,
    head: () => -1,
    first: () => [0, 0, 1, d_model],
  }),
  columns: ({ N, d_model, d_k }) => ({
    matrices: 1,
    rows: N,
    columns: d_model,
    head: (_, __, column) => Math.floor(column / d_k),
    first: () => [0, 0, 1, d_model],
  }),
  tokens: ({ N, h, d_k }) => ({
    matrices: N,
    rows: h,
    columns: d_k,
    head: (_, row) => row,
    first: (matrix) => (matrix === 0 ? [0, 0, h, d_k] : null),
  }),
  heads: ({ N, h, d_k }) => ({
    matrices: h,
    rows: N,
    columns: d_k,
    head: (matrix) => matrix,
    first: () => [0, 0, 1, d_k],
  }),
  turned: ({ N, h, d_k }) => ({
    matrices: h,
    rows: d_k,
    columns: N,
    head: (matrix) => matrix,
    first: () => [0, 0, d_k, 1],
  }),
  pairs: ({ N, h }) => ({
    matrices: h,
    rows: N,
    columns: N,
    head: (matrix) => matrix,
    first: () => [0, 0, 1, N],
  }),
};

/**
 * The tensor in words: what a drawing's label says, and what stands in its place when the
 * tensor is too large to draw.
 * @param {keyof typeof LOOKS} look
 * @param {Record<string, number>} sizes
 * @param {(key: string, values?: object) => string} t
 */
export function inWords(look, sizes, t) {
  const { matrices, rows, columns } = LOOKS[look](sizes);
  return t(`words_${look}`, { matrices, rows, columns, h: sizes.h, d_k: sizes.d_k });
}

/**
 * @param {keyof typeof LOOKS} look
 * @param {Record<string, number>} sizes
 * @param {(key: string, values?: object) => string} t
 * @returns {HTMLElement}
 */
export function drawTensor(look, sizes, t) {
  const plan = LOOKS[look](sizes);
  const cell = Math.max(4, Math.min(LARGEST_CELL, Math.floor(WIDEST / plan.columns)));
  const drawing = make("div", {
    class: "mha-tensor",
    role: "img",
    "aria-label": inWords(look, sizes, t),
  });
  for (let matrix = 0; matrix < plan.matrices; matrix += 1) {
    const box = make("div", { class: "mha-matrix" }, drawMatrix(plan, matrix, cell));
    if (look === "columns") box.append(columnOwners(sizes, cell, t));
    else if (look === "tokens") box.append(make("span", {}, t("token", { token: matrix + 1 })));
    else if (plan.head(matrix, 0, 0) === matrix && plan.matrices > 1) {
      box.append(make("span", {}, t("head", { head: matrix + 1 })));
    }
    drawing.append(box);
  }
  return drawing;
}

function drawMatrix({ rows, columns, head, first }, matrix, cell) {
  const [width, height] = [columns * cell, rows * cell];
  const drawing = svg("svg", {
    width: width + 2,
    height: height + 2,
    viewBox: `-1 -1 ${width + 2} ${height + 2}`,
  });
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const owner = head(matrix, row, column);
      const fill = owner < 0 ? "var(--mha-line)" : `var(--mha-head-${owner})`;
      drawing.append(
        svg("rect", {
          x: column * cell,
          y: row * cell,
          width: cell,
          height: cell,
          class: "mha-cell",
          style: `fill: ${fill}`,
        }),
      );
    }
  }
  const outlined = first(matrix);
  if (outlined) {
    const [row, column, tall, wide] = outlined.map((place) => place * cell);
    drawing.append(
      svg("rect", { x: column, y: row, width: wide, height: tall, class: "mha-first" }),
    );
  }
  return drawing;
}

/** Under the d_model columns: which of them belong to which head. */
function columnOwners({ h, d_k }, cell, t) {
  const owners = make("div", { class: "mha-owners" });
  for (let head = 1; head <= h; head += 1) {
    const wide = d_k * cell;
    const label = wide >= 48 ? t("head", { head }) : wide >= 10 ? String(head) : "";
    owners.append(make("span", { style: `width: ${wide}px` }, label));
  }
  return owners;
}
