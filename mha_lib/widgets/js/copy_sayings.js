/** What the demo of copying says in words. Every sentence follows from its numbers. */

import { showWeight } from "./ui.js";

const TELLING = 0.5; // the mean weight above which a head is said to do something

/**
 * @param {(key: string, values?: object) => string} t
 * @param {object} recipe
 * @param {(token: number) => string} name
 */
export function copySayings(t, recipe, name) {
  /** What a head does on the whole, by what was measured on other patterns. */
  function head(layer, number) {
    const place = `${layer + 1}.${number + 1}`;
    const [previous, induction] = [recipe.previous[layer][number], recipe.induction[layer][number]];
    if (induction >= TELLING) return t("head_induction", { place, weight: showWeight(induction) });
    if (previous >= TELLING) return t("head_previous", { place, weight: showWeight(previous) });
    return t("head_other", { place });
  }

  /** How many letters are named rightly, in each round. */
  function score({ tokens, guesses }) {
    const period = (tokens.length - 1) / 2;
    const right = (from, to) => {
      const places = tokens.map((_, i) => i).filter((i) => i >= from && i < to);
      return { right: places.filter((i) => guesses[i] === tokens[i + 1]).length, asked: places.length };
    };
    const [one, two] = [right(0, period), right(period + 1, 2 * period)];
    return t("score", { first: one.right, of_first: one.asked, second: two.right, of_second: two.asked });
  }

  /** What can be seen at the chosen letter. */
  function seen({ tokens, weights, guesses, chances, query }) {
    const period = (tokens.length - 1) / 2;
    const letter = name(tokens[query]);
    const says = t("says", { letter, guess: name(guesses[query]), chance: showWeight(chances[query]) });
    if (query <= period) return `${t(query === period ? "seen_turn" : "seen_first", { letter })} ${says}`;
    const after = query - period + 1;
    const maps = weights.at(-1).map((map) => map[query][after]);
    const weight = showWeight(Math.max(...maps));
    const values = { letter, following: name(tokens[after]), weight };
    return `${t(Math.max(...maps) >= TELLING ? "seen_second" : "seen_weak", values)} ${says}`;
  }

  function suggestion({ tokens, query }) {
    const period = (tokens.length - 1) / 2;
    if (query <= period) return "try_second";
    return query === tokens.length - 1 ? "try_pattern" : "try_first";
  }
  return { head, score, seen, suggestion };
}
