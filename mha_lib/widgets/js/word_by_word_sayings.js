/**
 * What the writer says in words. Every sentence follows from the numbers in view.
 *
 * @typedef {import("./word_by_word.js").Result} Result
 */

import { showWeight } from "./ui.js";

// Two numbers that differ by less are the same: rounding alone makes them differ.
const SAME = 1e-9;

const largest = (numbers) => numbers.indexOf(Math.max(...numbers));

/**
 * @param {(key: string, values?: object) => string} t
 * @param {object} recipe
 */
export function writerSayings(t, { vocabulary, steps }) {
  /** What was computed and what was kept. @param {Result} now */
  function work({ step, cache, words }) {
    const values = { step, steps, word: vocabulary[words.at(-1)], before: step - 1 };
    if (step === 1) return t(cache ? "seen_first_with" : "seen_first_without", values);
    const one = step === 2 ? "_one" : "";
    return t(`seen_${cache ? "with" : "without"}${one}`, values);
  }

  /** Where the newest word looks. @param {Result} now */
  function look({ words, weights }) {
    const row = weights.at(-1);
    const most = Math.max(...row);
    const word = vocabulary[words.at(-1)];
    if (row.length === 1) return t("look_alone", { word });
    const even = row.every((weight) => most - weight < SAME);
    if (even) return t("look_even", { word, weight: showWeight(most) });
    return t("look_top", { word, top: vocabulary[words[largest(row)]], weight: showWeight(most) });
  }

  /** What it chooses. @param {Result} now */
  function choice({ step, table, next }) {
    const [chosen, alone] = [next, largest(table)].map((word) => vocabulary[word]);
    if (step === steps) return t("chosen_last");
    return t(chosen === alone ? "chosen_table" : "chosen_found", { chosen, alone });
  }

  /** The two ways side by side. @param {Result} now */
  function verdict({ same_words, apart }) {
    return t(same_words && apart < SAME ? "same" : "differs");
  }

  /** What is worth trying next. @param {Result} now */
  function suggestion({ step, cache }) {
    if (!cache) return step < steps ? "try_on" : "try_with";
    if (step === steps) return "try_over";
    return step === steps - 1 ? "try_without" : "try_next";
  }

  return { seen: (now) => [work(now), look(now), choice(now)].join(" "), verdict, suggestion };
}
