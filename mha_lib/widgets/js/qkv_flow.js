/** How the numbers flow: a query, the keys it meets, the weights, the values they mix. */

import { emptyTable, heatmap, showInCell } from "./heatmap.js";
import { make, rich, scrollBox, showNumber } from "./ui.js";

/**
 * A table of numbers, which marks those that have just moved.
 * @param {object} parts
 * @param {Node|string} parts.caption
 * @param {string} parts.corner
 * @param {Node[]} parts.rows
 * @param {Node[]} parts.columns
 * @returns {{element: HTMLElement, caption: HTMLElement, mark(row: number): void,
 *   show(cells: {number?: number, numbers?: number[], weight?: number}[][], changed?: boolean): void}}
 *   `changed`: what is new in the table has moved, and is not another word's.
 */
export function numberTable({ caption, corner, rows, columns }) {
  const table = emptyTable({ look: "mha-numbers", caption, corner, rows, columns });

  function fill(cell, { number, numbers, weight }, changed) {
    const before = cell.textContent;
    if (weight !== undefined) {
      cell.classList.add("mha-weight");
      showInCell(cell, weight);
    } else if (numbers) cell.textContent = `[${numbers.map(showNumber).join(", ")}]`;
    else cell.textContent = number === undefined ? "" : showNumber(number);
    cell.toggleAttribute("data-moved", changed && before !== cell.textContent);
  }
  return {
    element: table.element,
    caption: table.caption,
    mark: table.mark,
    show: (cells, changed = false) =>
      table.cells.forEach((row, i) => row.forEach((cell, j) => fill(cell, cells[i][j], changed))),
  };
}

/**
 * @param {(key: string, values?: object) => string} t
 * @param {{recipe: object, language: string}} parts
 */
export function numbersFlow(t, { recipe: { words, x }, language }) {
  const word = (text) => make("span", { lang: language }, text);
  const head = (key) => rich(t(key));
  const steps = ["ask", "meet", "mix", "all"].map((name) => {
    const title = make("p", { class: "mha-subtitle" }, t(`title_${name}`));
    return { title, how: make("p", { class: "mha-try" }) };
  });
  const [ask, meet, mix, all] = steps;
  const working = make("div", { class: "mha-working" });
  const meets = numberTable({
    caption: "",
    corner: "",
    rows: words.map(word),
    columns: ["key", "product", "score", "weight"].map(head),
  });
  const mixes = numberTable({
    caption: "",
    corner: "",
    rows: [...words.map(word), make("strong", {}, t("sum"))],
    columns: ["weight", "value", "share"].map(head),
  });
  const scores = numberTable({
    caption: t("scores_caption"),
    corner: t("corner"),
    rows: words.map(word),
    columns: words.map(word),
  });
  const map = heatmap({
    caption: t("weights_caption"),
    corner: t("corner"),
    rows: words.map(word),
    columns: words.map(word),
  });

  /** One number of the query, written out: a row of X times a column of W_Q. */
  function workOut(now, column) {
    const terms = x[now.query].map((number, i) => {
      const factor = now.matrices.W_Q[i][column];
      return `${showNumber(number)} × ${factor < 0 ? `(${factor})` : factor}`;
    });
    const exact = now.q[now.query][column];
    const sign = Math.abs(exact - Number(exact.toFixed(2))) < 1e-9 ? "=" : "≈";
    const name = make("span", {}, "q", make("sub", {}, String(column + 1)));
    return make("p", {}, name, ` = ${terms.join(" + ")} ${sign} `, make("strong", {}, showNumber(exact)));
  }

  function update(now) {
    const { query, q, k, v, products, changed } = now;
    const values = { word: words[query], query: `[${q[query].map(showNumber).join(", ")}]` };
    for (const [step, name] of [[ask, "ask"], [meet, "meet"], [mix, "mix"], [all, "all"]])
      step.how.replaceChildren(rich(t(`how_${name}`, values), language));
    working.replaceChildren(...q[query].map((_, column) => workOut(now, column)));
    meets.caption.replaceChildren(rich(t("meets_caption", values), language));
    meets.show(
      words.map((_, j) => [
        { numbers: k[j] },
        { number: products[query][j] },
        { number: now.scores[query][j] },
        { weight: now.weights[query][j] },
      ]),
      changed,
    );
    mixes.caption.replaceChildren(rich(t("mixes_caption", values), language));
    mixes.show(
      [
        ...words.map((_, j) => {
          const weight = now.weights[query][j];
          return [{ weight }, { numbers: v[j] }, { numbers: v[j].map((number) => weight * number) }];
        }),
        [{}, {}, { numbers: now.mix[query] }],
      ],
      changed,
    );
    scores.show(
      now.scores.map((row) => row.map((number) => ({ number }))),
      changed,
    );
    scores.mark(query);
    map.show(now.weights, query);
  }
  return {
    element: make(
      "div",
      {},
      ask.title,
      ask.how,
      working,
      make(
        "div",
        { class: "mha-beside" },
        make("div", {}, meet.title, meet.how, scrollBox(t("title_meet"), meets.element)),
        make("div", {}, mix.title, mix.how, scrollBox(t("title_mix"), mixes.element)),
      ),
      all.title,
      all.how,
      make(
        "div",
        { class: "mha-maps" },
        scrollBox(t("scores_caption"), scores.element),
        scrollBox(t("weights_caption"), map.element),
      ),
    ),
    show: update,
  };
}
