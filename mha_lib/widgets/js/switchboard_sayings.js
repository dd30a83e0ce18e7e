/** What the switchboard says in words. Every sentence follows from the numbers in view. */

import { make, rich, showWeight } from "./ui.js";

// Two weights that differ by less are the same: rounding alone makes them differ.
const SAME = 1e-9;

/**
 * @param {(key: string, values?: object) => string} t
 * @param {object} recipe
 */
export function switchboardSayings(t, recipe) {
  const { source, target } = recipe.sentences;

  /** A sentence whose *emphasised* words are each in their own language. */
  function said(text) {
    const line = make("span", { class: "mha-said" }, rich(text), " ");
    for (const word of line.querySelectorAll("em")) {
      const from = [source, target].find(({ words }) => words.includes(word.textContent));
      if (from) word.lang = from.language;
    }
    return line;
  }

  /** What this kind of attention means. */
  function meaning({ kind, keep }) {
    const cells = keep.flat();
    const shut = cells.filter((kept) => !kept).length;
    if (kind === "decoder" && shut === 0) return t("seen_decoder_first");
    return t(`seen_${kind}`, { shut, total: cells.length });
  }

  /** Where the word that asks looks. @returns {string[]} */
  function row({ keep, scores, weights, asking, answering, query }) {
    const word = asking[query];
    const open = keep[query].map((_, j) => j).filter((j) => keep[query][j]);
    const most = Math.max(...weights[query]);
    const tops = open.filter((j) => most - weights[query][j] < SAME);
    const weight = showWeight(most);
    const lines = [];
    if (open.length === 1) lines.push(t("row_alone", { word, weight }));
    else if (tops.length === open.length) lines.push(t("row_even", { word, weight }));
    else lines.push(t("row_top", { word, top: answering[tops[0]], weight }));

    const best = scores[query].indexOf(Math.max(...scores[query]));
    const missed = !keep[query][best] && scores[query][best] > scores[query][tops[0]] + SAME;
    if (missed) lines.push(t("row_missed", { word, best: answering[best] }));
    return lines;
  }

  /** What the decoder makes of it: the next word. @returns {string[]} */
  function next({ asks, asking, query }) {
    if (asks !== "target") return [];
    const word = asking[query];
    const following = target.words[query + 1];
    return [following ? t("next", { word, following }) : t("next_end", { word })];
  }

  return { seen: (now) => [meaning(now), ...row(now), ...next(now)].map(said) };
}
