/** A form that describes a new word by its features. */

import { freshId, literal, make, rich, slider } from "./ui.js";

/** One of a word's numbers, written like a weight: .9, or 1. @param {number} number */
export const showFeature = (number) => String(number).replace(/^0\./, ".");

/**
 * @param {(key: string, values?: object) => string} t
 * @param {{features: string[], most_added: number, longest_word: number}} recipe
 * @param {{words(): string[], add(word: {word: string, features: number[]}): void, clear(): void}} doing
 * @returns {{element: HTMLElement, show(own: number): void}} `own`: how many words are the reader's
 */
export function wordForm(t, { features, most_added, longest_word }, { words, add, clear }) {
  const id = freshId("own");
  const refused = make("p", { class: "mha-refused", role: "alert" });
  const word = make("input", { type: "text", id, maxlength: longest_word, autocomplete: "off", spellcheck: "false" });
  const sliders = features.map((feature) => {
    const each = slider({
      label: t(`feature_${feature}`),
      max: 1,
      step: 0.1,
      oninput: (number) => each.show(number),
      write: showFeature,
    });
    each.show(0.5);
    return each;
  });
  const away = make("button", { type: "button", onclick: takeAway }, t("clear"));
  const element = make(
    "form",
    { class: "mha-own", onsubmit: submit },
    make("p", { class: "mha-subtitle" }, t("add_title")),
    make("div", { class: "mha-picker" }, make("label", { for: id }, t("own_word")), word),
    make("div", { class: "mha-sliders" }, ...sliders.map((each) => each.element)),
    make("div", { class: "mha-row" }, make("button", { type: "submit" }, t("add")), away),
    refused,
  );
  let count = 0;

  /** Why the word cannot be added, or null. */
  function flaw(name, numbers) {
    if (name === "") return t("refused_empty");
    if (words().includes(name)) return t("refused_there", { word: literal(name) });
    if (numbers.every((number) => number === 0)) return t("refused_zeros");
    if (count >= most_added) return t("refused_full", { most: most_added });
    return null;
  }

  function submit(event) {
    event.preventDefault();
    const name = word.value.trim();
    const numbers = sliders.map((each) => each.value());
    const why = flaw(name, numbers);
    refused.replaceChildren(why ? rich(why) : "");
    if (why) return;
    word.value = "";
    add({ word: name, features: numbers });
  }

  function takeAway() {
    refused.replaceChildren();
    if (count > 0) clear();
  }

  function show(own) {
    count = own;
    away.setAttribute("aria-disabled", String(own === 0));
  }
  return { element, show };
}
