/** What the head explorer says in words. Every sentence follows from the numbers in view. */

import { showWeight } from "./ui.js";

// Two decimals are shown: a smaller difference than this cannot be seen.
const VISIBLE = 0.005;

/**
 * @param {(key: string, values?: object) => string} t
 * @param {{names: string[], meanings: string[], language: string}} parts
 */
export function sayings(t, { names, meanings, language }) {
  const inWords = new Intl.ListFormat(language, { type: "conjunction" });
  const word = (text) => t("word", { word: text });

  function listHeaviest(words, row) {
    return inWords.format(heaviest(row).map((j) => word(words[j])));
  }

  /** What to do next, from here. */
  function tryThis({ words, head, query, weights, gains }) {
    const here = { number: head + 1, name: names[head], word: words[query] };
    if (gains[head] === 0) return t("try_gain", here);
    const row = weights[head][query];
    if (isEven(row)) return t("try_word", here);
    const next = (head + 1) % names.length;
    const top = listHeaviest(words, row);
    return t("try_head", { word: words[query], number: next + 1, name: names[next], top });
  }

  /** What the row in view shows. */
  function seen({ words, head, query, weights, features, gains }) {
    const row = weights[head][query];
    const here = { number: head + 1, name: names[head], word: words[query] };
    const mine = block(features[query], head);
    const lines = [];
    if (isEven(row)) {
      lines.push(t("seen_even", { ...here, weight: showWeight(row[0]) }));
      if (gains[head] === 0) lines.push(t("why_gain"));
      else if (mine.every((feature) => feature === 0)) lines.push(t("why_nothing", here));
    } else {
      const items = mostOf(row).map((j) =>
        t("seen_item", { weight: showWeight(row[j]), word: words[j] }),
      );
      lines.push(t("seen", { ...here, list: inWords.format(items) }));
      const farthest = heaviest(row).reduce((a, b) => (far(b) > far(a) ? b : a));
      if (far(farthest) > 2) lines.push(t("seen_far", { word: words[farthest], distance: far(farthest) }));
      const twins = words.map((_, j) => j).filter((j) => j !== query && same(block(features[j], head), mine));
      if (twins.length > 0) lines.push(t("seen_twin", { list: inWords.format(twins.map((j) => word(words[j]))) }));
    }
    names.forEach((name, other) => {
      if (other === head) return;
      const row = weights[other][query];
      const there = { number: other + 1, name, list: listHeaviest(words, row) };
      lines.push(t(isEven(row) ? "other_even" : "seen_other", there));
    });
    return lines.join(" ");

    function far(j) {
      return Math.abs(j - query);
    }
  }

  /** Which meaning is strongest in the output, and from which heads it came. */
  function output({ words, query, contributions, output: rows }) {
    const first = meanings.length;
    const values = rows[query].slice(first, first + meanings.length);
    const strongest = values.indexOf(Math.max(...values));
    const shares = contributions.map((head) => showWeight(head[query][first + strongest]));
    const total = showWeight(values[strongest]);
    // Rounded numbers may miss their rounded sum by .01.
    const exact = shares.reduce((sum, share) => sum + Number(share), 0).toFixed(2) === Number(total).toFixed(2);
    const terms = shares.map((weight, i) => t("out_item", { weight, name: names[i] }));
    return t("out_seen", {
      word: words[query],
      feature: t(`meaning_${meanings[strongest]}`),
      sum: `${terms.join(" + ")} ${exact ? "=" : "≈"} ${total}`,
    });
  }

  /** The features a head reads: its own block of d_k. */
  function block(row, head) {
    const headDim = row.length / names.length;
    return row.slice(head * headDim, (head + 1) * headDim);
  }

  return { tryThis, seen, output };
}

function isEven(row) {
  return Math.max(...row) - Math.min(...row) < VISIBLE;
}

/** Whose weight is the largest, as far as can be seen. @returns {number[]} */
function heaviest(row) {
  const largest = Math.max(...row);
  return row.map((_, j) => j).filter((j) => largest - row[j] < VISIBLE);
}

/** The heaviest first, as many as together hold most of the row. @returns {number[]} */
function mostOf(row) {
  const order = row.map((_, j) => j).sort((a, b) => row[b] - row[a]);
  let held = 0;
  return order.filter((j) => {
    const needed = held < 0.85;
    held += row[j];
    return needed;
  });
}

function same(a, b) {
  return a.every((number, i) => number === b[i]);
}
