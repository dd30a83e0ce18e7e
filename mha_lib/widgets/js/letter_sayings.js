/** What the demo of writing says in words. Every sentence follows from its numbers. */

import { literal, make, showWeight } from "./ui.js";

/**
 * @param {(key: string, values?: object) => string} t
 * @param {object} recipe
 */
export function letterSayings(t, recipe) {
  /** A letter as nodes: a space is drawn, and named for who hears it. */
  function shown(letter) {
    if (letter !== " ") return [letter];
    return [make("span", { "aria-hidden": "true" }, "␣"), make("span", { class: "mha-hidden" }, t("space"))];
  }

  const named = (letter) => (letter === " " ? t("a_space") : `*${literal(letter)}*`);

  /** How far back a letter stands. */
  function back(distance) {
    if (distance === 0) return t("itself");
    return distance === 1 ? t("one_back") : t("back", { distance });
  }

  function seen({ text, query, weights, chances }, layer, head) {
    const row = weights[layer][head];
    const best = row.indexOf(Math.max(...row));
    const likeliest = chances.indexOf(Math.max(...chances));
    const looks = t("seen", {
      head: `${layer + 1}.${head + 1}`,
      letter: named(text[query]),
      found: named(text[best]),
      where: back(query - best),
      weight: showWeight(row[best]),
    });
    const expects = t("expects", { next: named(recipe.alphabet[likeliest]), chance: showWeight(chances[likeliest]) });
    if (query === text.length - 1) return `${looks} ${expects}`;
    const came = named(text[query + 1]);
    return `${looks} ${expects} ${t(text[query + 1] === recipe.alphabet[likeliest] ? "came_so" : "came", { came })}`;
  }
  return { shown, back, seen };
}
