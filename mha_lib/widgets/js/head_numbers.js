/** The folded part: change the query word's features and the heads' gains. */

import { make, rich, slider } from "./ui.js";

/**
 * @param {(key: string, values?: object) => string} t
 * @param {{recipe: object, names: string[], language: string, change: (traits: object) => void}} parts
 */
export function numbersEditor(t, { recipe, names, language, change }) {
  const { roles, meanings, opening } = recipe;
  const whose = make("p", {});
  const place = make("output");
  /** @type {import("./head_explorer.js").Situation} */
  let now;

  function setFeature(column, value) {
    const features = now.features.map((row) => [...row]);
    features[now.query][column] = value;
    change({ features });
  }
  const labels = [...roles.map((role) => t(`role_${role}`)), ...meanings.map((each) => t(`meaning_${each}`))];
  const features = labels.map((name, column) =>
    slider({ label: name, max: 1, step: 0.25, oninput: (value) => setFeature(column, value) }),
  );
  const gains = names.map((name, head) => {
    const oninput = (value) => change({ gains: now.gains.with(head, value) });
    const label = t("head_label", { number: head + 1, name });
    return slider({ label, max: recipe.greatest_gain, step: 0.5, oninput });
  });
  const wantsTitle = make("p");
  const wants = make("ul", { class: "mha-wants" });

  function group(legend, hint, sliders) {
    return make(
      "fieldset",
      {},
      make("legend", {}, legend),
      make("p", { class: "mha-try" }, hint),
      make("div", { class: "mha-sliders" }, ...sliders.map((each) => each.element)),
    );
  }
  function reset() {
    const sentence = recipe.sentences.find((each) => each.text === now.text);
    change({ features: sentence.features, gains: opening.gains });
  }
  const element = make(
    "details",
    {},
    make("summary", {}, t("change")),
    group(t("gains"), t("gains_hint"), gains),
    wantsTitle,
    wants,
    whose,
    group(t("role"), t("role_hint"), features.slice(0, roles.length)),
    group(t("meaning"), t("meaning_hint"), features.slice(roles.length)),
    make("p", {}, make("strong", {}, t("position")), " ", place),
    make("button", { type: "button", onclick: reset }, t("reset")),
  );

  /** What each feature that a head reads looks for: the head's part of W_Q, before the gain. */
  function listWants(head) {
    const { W_Q } = recipe.projections;
    const places = Array.from({ length: W_Q.length - labels.length }, (_, i) => t("place", { place: i + 1 }));
    const all = [...labels, ...places];
    const inWords = new Intl.ListFormat(language, { type: "conjunction" });
    const headDim = W_Q.length / names.length; // d_k
    const block = Array.from({ length: headDim }, (_, i) => head * headDim + i);
    return block.map((row) => {
      const wanted = block
        .filter((column) => W_Q[row][column] !== 0)
        .sort((a, b) => W_Q[row][b] - W_Q[row][a]);
      const list = wanted.map((column) =>
        t("wanted", { feature: all[column], amount: W_Q[row][column] }),
      );
      return make("li", {}, t("wants", { feature: all[row], list: inWords.format(list) }));
    });
  }

  function show(situation) {
    if (situation.head !== now?.head) {
      wantsTitle.replaceChildren(
        rich(t("wants_title", { number: situation.head + 1, name: names[situation.head] })),
      );
      wants.replaceChildren(...listWants(situation.head));
    }
    now = situation;
    const row = now.features[now.query];
    features.forEach((each, column) => each.show(row[column]));
    gains.forEach((each, head) => each.show(now.gains[head]));
    whose.replaceChildren(rich(t("whose", { word: now.words[now.query] }), now.language));
    const vector = row.slice(features.length).join(", ");
    place.textContent = t("standing", { place: now.query + 1, count: now.words.length, vector });
  }
  return { element, show };
}
