/** What the mask painter says in words. Every sentence follows from the numbers in view. */

import { isOne } from "./mask_tables.js";
import { showWeight } from "./ui.js";

/**
 * @param {(key: string, values?: object) => string} t
 * @param {string} language
 */
export function sayings(t, language) {
  const inWords = new Intl.ListFormat(language, { type: "conjunction" });

  /** Name rows by their words; of padding, all rows at once. */
  function rows(numbers, { words, length, sums }, key = "row") {
    const items = numbers
      .filter((i) => i < length)
      .map((i) => t(key, { word: words[i], total: showWeight(sums[i]) }));
    if (numbers.some((i) => i >= length)) items.push(t("row_pad", { pad: words.at(-1) }));
    return inWords.format(items);
  }

  /** A sentence about some rows: in the singular for one of them. */
  function about(key, numbers, now, itemKey) {
    if (numbers.length === 0) return [];
    const values = { list: rows(numbers, now, itemKey), pad: now.words.at(-1) };
    return [numbers.length === 1 ? t(`one_${key}`, values) : t(`many_${key}`, values)];
  }

  /** What to do next, from here. */
  function tryThis({ pattern, turned, when, reading, blind, words }) {
    if (turned) return t("try_turned");
    if (when === "after") return t("try_after");
    if (blind.length > 0) return t("try_blind");
    if (reading === "ignore") return t("try_ignore");
    return t(`try_${pattern}`, { pad: words.at(-1) });
  }

  /** What is seen now, in sentences. @returns {string[]} */
  function seen(now) {
    const { keep, sums, blind, leaks, length, pattern, turned, words } = now;
    const all = keep.map((_, i) => i);
    const real = all.filter((i) => i < length);
    const off = all.filter((i) => !isOne(sums[i]) && !blind.includes(i));
    const ahead = real.filter((i) => keep[i].some((kept, j) => kept && j > i && j < length));
    const pads = real.filter((i) => keep[i].some((kept, j) => kept && j >= length));
    const known = { pad: words.at(-1), pattern: turned ? t(`pattern_${turned}`) : "" };
    return [
      t(turned ? "seen_turned" : keep.flat().every(Boolean) ? "seen_everything" : `seen_${pattern}`, known),
      ...(turned === "causal" ? [t("refused")] : []),
      ...(off.length === 0 && blind.length === 0 ? [t("sums_1")] : about("off", off, now, "row_sum")),
      ...about("blind", blind, now),
      ...about("leaks", leaks, now),
      ...about("pads", pads, now),
      ...(ahead.length > 0 ? about("ahead", ahead, now) : [t("none_ahead")]),
    ];
  }

  return { tryThis, seen };
}
