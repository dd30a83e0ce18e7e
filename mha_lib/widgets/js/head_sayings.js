/** What the head explorer says in words. Every sentence follows from the numbers in view. */

import { showWeight } from "./ui.js";

// Words are told apart by what is shown of their weights: two decimals. What is equal there
// is named together or not at all.

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
      const items = mostOf(row).flatMap(({ weight, places, isTheRest }) =>
        isTheRest && places.length > 1
          ? [t("seen_rest", { weight })]
          : places.map((j) => t("seen_item", { weight, word: words[j] })),
      );
      lines.push(t("seen", { ...here, list: inWords.format(items) }));
      const farthest = heaviest(row).reduce((a, b) => (far(b) > far(a) ? b : a));
      if (far(farthest) > 2) lines.push(t("seen_far", { word: words[farthest], distance: far(farthest) }));
      const twins = words.map((_, j) => j).filter((j) => j !== query && same(block(features[j], head), mine));
      const list = inWords.format(twins.map((j) => word(words[j])));
      if (twins.length > 0) lines.push(t(twins.length === 1 ? "seen_twin" : "seen_twins", { list }));
    }
    return lines.join(" ");

    function far(j) {
      return Math.abs(j - query);
    }
  }

  /** Which meaning is strongest in the output, and from which heads it came. */
  function output({ words, query, contributions, output: rows }) {
    const here = { word: words[query] };
    const values = meaningsOf(rows[query]);
    const strongest = heaviest(values);
    const total = showWeight(values[strongest[0]]);
    if (Number(total) === 0) return t("out_none", { ...here, total });
    const features = strongest.map((each) => t(`meaning_${meanings[each]}`));
    if (features.length > 1) return t("out_ties", { ...here, total, list: inWords.format(features) });
    const shares = contributions.map((head) => showWeight(meaningsOf(head[query])[strongest[0]]));
    // Rounded numbers may miss their rounded sum by .01.
    const exact = shares.reduce((sum, share) => sum + Number(share), 0).toFixed(2) === Number(total).toFixed(2);
    const terms = shares.map((weight, i) => t("out_item", { weight, name: names[i] }));
    const sum = `${terms.join(" + ")} ${exact ? "=" : "≈"} ${total}`;
    return t("out_seen", { ...here, feature: features[0], sum });
  }

  /** Whose weights these are, and which words start without a meaning. */
  function note({ words, features }) {
    const plain = words.filter((_, j) => meaningsOf(features[j]).every((feature) => feature === 0));
    if (plain.length === 0) return t("note");
    return `${t("note")} ${t("note_plain", { list: inWords.format(plain.map(word)) })}`;
  }

  /** The second of a row's three blocks, which W_O writes into too. */
  function meaningsOf(row) {
    return row.slice(meanings.length, 2 * meanings.length);
  }

  /** The features a head reads: its own block of d_k. */
  function block(row, head) {
    const headDim = row.length / names.length;
    return row.slice(head * headDim, (head + 1) * headDim);
  }

  return { tryThis, seen, output, note };
}

/** The weights that are shown, the largest first, each with the places where it stands. */
function ranks(row) {
  const places = new Map();
  row.forEach((weight, j) => {
    const shown = showWeight(weight);
    places.set(shown, [...(places.get(shown) ?? []), j]);
  });
  return [...places]
    .map(([weight, places]) => ({ weight, places }))
    .sort((a, b) => row[b.places[0]] - row[a.places[0]]);
}

function isEven(row) {
  return ranks(row).length === 1;
}

/** Where the largest weight stands. @param {number[]} row @returns {number[]} */
function heaviest(row) {
  return ranks(row)[0].places;
}

/** The largest ranks, as many as together hold most of the row. */
function mostOf(row) {
  let held = 0;
  return ranks(row)
    .map((rank, place, { length }) => ({ ...rank, isTheRest: place === length - 1 }))
    .filter(({ places }) => {
      const needed = held < 0.85;
      held += places.reduce((sum, j) => sum + row[j], 0);
      return needed;
    });
}

function same(a, b) {
  return a.every((number, i) => number === b[i]);
}
