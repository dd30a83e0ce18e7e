/** What the demo of the made-up language says in words. Every sentence follows from its numbers. */

import { showWeight } from "./ui.js";

const TELLING = 0.5; // the mean weight above which a head is said to do a relation

/** Whether the model names the right word. */
export function isRight({ words, places, guesses }, token, relation) {
  return guesses[token][relation] === words[places[token][relation]];
}

/**
 * @param {(key: string, values?: object) => string} t
 * @param {object} recipe
 */
export function grammarSayings(t, recipe) {
  const relations = recipe.relations.map((_, r) => r);
  const nameOf = (r) => t(`relation_${recipe.relations[r]}`);

  /** How many of the words asked for it names, for each relation. @returns {[number, number][]} */
  function counts(now) {
    return relations.map((r) => {
      const asked = now.words.map((_, i) => i).filter((i) => r > 0 || i > 0); // the first has none before it
      return [asked.filter((i) => isRight(now, i, r)).length, asked.length];
    });
  }

  /** Where a head puts its weight on the whole, and whether it is on. */
  function head(number, on) {
    const mass = recipe.mass[number];
    const best = mass.indexOf(Math.max(...mass));
    const values = { number: number + 1, relation: nameOf(best), weight: showWeight(mass[best]) };
    if (mass[best] >= TELLING) return t(on ? "head_does" : "head_does_off", values);
    return t(on ? "head_mixed" : "head_mixed_off", values);
  }

  function score(now) {
    const parts = counts(now).map(([right, asked], r) => t("count", { relation: nameOf(r), right, asked }));
    return t("score", { parts: parts.join(", ") });
  }

  /** What the switches have done. */
  function seen(now) {
    const off = now.heads.map((on, i) => (on ? -1 : i)).filter((i) => i >= 0);
    const lost = relations.filter((r) => {
      const [right, asked] = counts(now)[r];
      return right < asked;
    });
    const names = (list) => list.map((r) => `*${nameOf(r)}*`).join(t("and"));
    const heads = off.map((i) => i + 1).join(t("and"));
    if (off.length === 0) return t(lost.length ? "seen_on_wrong" : "seen_on", { lost: names(lost) });
    if (off.length === now.heads.length) return t("seen_none");
    const key = lost.length === 0 ? "seen_off_nothing" : "seen_off";
    const kept = relations.filter((r) => !lost.includes(r));
    return t(key, { heads, lost: names(lost), kept: kept.length ? t("kept", { names: names(kept) }) : "" }).trim();
  }

  function suggestion({ heads }) {
    const off = heads.filter((on) => !on).length;
    if (off === 0) return "try_on";
    return off === heads.length ? "try_none" : "try_off";
  }
  return { head, score, seen, suggestion };
}
