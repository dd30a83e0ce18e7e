/** What follows from a mask, as tables: the weights with their sums, and what softmax is given. */

import { emptyTable, heatmap } from "./heatmap.js";
import { make, scrollBox, showWeight } from "./ui.js";

const word = (text) => make("span", { lang: "en" }, text);

/**
 * The weights and, at the end of each row, their sum.
 * @param {(key: string, values?: object) => string} t
 * @param {string[]} words
 */
export function weightsTable(t, words) {
  const map = heatmap({
    caption: t("weights"),
    corner: t("corner"),
    rows: words.map(word),
    columns: words.map(word),
  });
  const [header, ...lines] = map.element.rows;
  header.append(make("th", { scope: "col" }, t("sum")));
  const sums = lines.map((line) => {
    const cell = make("td", { class: "mha-row-sum" });
    line.append(cell);
    return cell;
  });

  function show({ weights, sums: totals, keep }) {
    map.show(weights);
    lines.forEach((line, i) => {
      const total = showWeight(totals[i]);
      sums[i].textContent = isOne(totals[i]) ? total : t("not_1", { total });
      sums[i].classList.toggle("mha-off", !isOne(totals[i]));
      keep[i].forEach((kept, j) => {
        const cell = line.cells[j + 1];
        cell.classList.toggle("mha-shut", !kept);
        // Exactly 0, where .00 may be a small weight.
        if (!kept) cell.textContent = "0";
      });
    });
  }
  return { element: scrollBox(t("weights"), map.element), show };
}

/**
 * The scores as softmax is given them: where the mask comes before it, -infinity is hidden.
 * @param {(key: string, values?: object) => string} t
 * @param {string[]} words
 */
export function scoresTable(t, words) {
  const { element, caption, cells } = emptyTable({
    look: "mha-heatmap",
    corner: t("corner"),
    rows: words.map(word),
    columns: words.map(word),
  });

  function show({ scores, keep, when }) {
    caption.textContent = t(`given_${when}`);
    cells.forEach((row, i) =>
      row.forEach((cell, j) => {
        const hidden = when === "before" && !keep[i][j];
        cell.textContent = hidden ? "−∞" : showWeight(scores[i][j]);
        cell.classList.toggle("mha-shut", hidden);
      }),
    );
  }
  return { element: scrollBox(t("given"), element), show };
}

/** Whether a row's sum is 1 but for rounding. @param {number} total */
export function isOne(total) {
  return Math.abs(total - 1) < 1e-6;
}
