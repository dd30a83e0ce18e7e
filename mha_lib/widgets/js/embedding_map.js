/**
 * What does it mean that two words are near? Words with invented features, on a flat map that
 * shows two directions, and by their cosines, which count all features.
 *
 * Everything shown comes from `result`, which mha_lib fills in where there is a kernel and
 * `compute` below where there is none.
 *
 * @typedef {object} Result
 * @property {string} view what the map is drawn on
 * @property {number} selected the word that the others are compared with
 * @property {string[]} words
 * @property {number[][]} rows (N, 4): the words' features
 * @property {number[][]} directions (2, 4): what the map is drawn on
 * @property {number[][]} points (N, 2): where the words are on it
 * @property {number[]} cosines (N): each word's with the selected one
 */

import { matmul, transpose } from "./attention.js";
import { showFeature, wordForm } from "./embedding_form.js";
import { showInCell } from "./heatmap.js";
import { plane } from "./plane.js";
import { selectPicker } from "./pickers.js";
import { mean, principalDirections } from "./principal.js";
import { changer, freshId, literal, liveLine, make, rich, root, say, scrollBox, showWeight, translator } from "./ui.js";

const LANGUAGE = "en"; // the ten words'
const PRINCIPAL = "principal";
/** Two words that are closer than this on the map lie in the same place. */
const SAME = 1e-9;

/**
 * What EmbeddingMap.compute does in Python.
 * @param {{recipe: object, view: string, selected: number, added: {word: string, features: number[]}[]}} state
 * @returns {Result}
 */
export function compute({ recipe, view, selected, added }) {
  const words = [...recipe.words, ...added.map(({ word }) => word)];
  const rows = [...recipe.rows, ...added.map(({ features }) => features)]; // (N, 4)
  const principal = view === PRINCIPAL;
  const directions = principal
    ? principalDirections(recipe.rows, 2)
    : recipe.views[view].map((feature) => recipe.features.map((_, i) => Number(i === feature))); // (2, 4)
  const centre = principal ? mean(recipe.rows) : recipe.features.map(() => 0); // (4)
  const moved = rows.map((row) => row.map((number, i) => number - centre[i])); // (N, 4)
  const points = matmul(moved, transpose(directions)); // (N, 2)
  const units = rows.map((row) => row.map((number) => number / Math.hypot(...row))); // (N, 4)
  const [cosines] = matmul([units[selected]], transpose(units)); // (N)
  return { view, selected, words, rows, directions, points, cosines };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "embedding_map");
  const recipe = model.get("recipe");
  const change = changer(model);

  const titleId = freshId("title");
  const select = (selected) => change({ selected });
  const views = viewPicker(t, recipe, (view) => change({ view }));
  const words = wordPicker(t, recipe, select);
  const map = makeMap(t, recipe, select);
  const table = makeTable(t, recipe);
  const form = wordForm(t, recipe, {
    words: () => model.get("result").words,
    add(word) {
      const added = [...model.get("added"), word];
      change({ added, selected: recipe.words.length + added.length - 1 });
    },
    clear: () => change({ added: [], selected: Math.min(model.get("selected"), recipe.words.length - 1) }),
  });
  const seen = liveLine();
  const tryThis = make("p", { class: "mha-try" });
  const demo = root(
    "score mha-embed",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    tryThis,
    views.element,
    words.element,
    make("div", { class: "mha-view" }, map.element, make("div", {}, seen, map.caption)),
    table.element,
    form.element,
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  el.append(demo);

  function draw() {
    /** @type {Result} */
    const now = model.get("result");
    const own = now.words.length - recipe.words.length;
    views.show(now.view);
    words.show(now);
    map.show(now);
    table.show(now);
    form.show(own);
    say(seen, rich(whatWasSeen(now, recipe, t, model.get("language"))));
    tryThis.replaceChildren(rich(t(suggestion(now, own))));
  }

  model.on("change:result", draw);
  draw();
  return () => model.off("change:result", draw);
}

/** What the map is drawn on: two features, or where the words differ most. */
function viewPicker(t, { features, views }, change) {
  function write(view) {
    if (view === PRINCIPAL) return t("view_principal");
    const [across, up] = views[view].map((feature) => t(`feature_${features[feature]}`));
    return t("view_pair", { across, up });
  }
  return selectPicker({ label: t("view"), values: Object.keys(views), write, choose: change });
}

/** A radio button for each word. */
function wordPicker(t, recipe, change) {
  const group = freshId("word");
  const choices = make("div", { class: "mha-choices" });
  const element = make("fieldset", {}, make("legend", {}, t("word")), choices);
  /** @type {HTMLInputElement[]} */
  let inputs = [];
  let shown = "";

  function show({ words, selected }) {
    // Made anew only for other words: a radio button that is replaced loses the focus.
    if (JSON.stringify(words) !== shown) {
      shown = JSON.stringify(words);
      inputs = words.map((_, i) =>
        make("input", { type: "radio", name: group, id: `${group}-${i}`, onchange: () => change(i) }),
      );
      choices.replaceChildren(
        ...words.map((word, i) => {
          const lang = i < recipe.words.length ? LANGUAGE : undefined;
          return make("span", { class: "mha-choice" }, inputs[i], make("label", { for: inputs[i].id, lang }, word));
        }),
      );
    }
    inputs[selected].checked = true;
  }
  return { element, show };
}

/** The map, what it is drawn on, and the same in words for screen readers. */
function makeMap(t, { features, words }, select) {
  const picture = plane(select);
  const caption = make("p", { class: "mha-caption" });
  const places = make("ul", { class: "mha-hidden" });
  const element = make("div", { class: "mha-map" }, picture.element, places);
  const named = (feature) => t(`feature_${features[feature]}`);

  /** A direction as a sum: .77 animal − .63 furniture. */
  function mixed(direction) {
    const parts = direction.map((part, i) => ({ part, name: named(i) })).filter(({ part }) => signed(part) !== "0");
    return parts
      .map(({ part, name }, i) => {
        const sign = part < 0 ? "− " : i > 0 ? "+ " : "";
        return `${sign}${showWeight(Math.abs(part))} *${name}*`;
      })
      .join(" ");
  }

  /** @param {Result} now */
  function show(now) {
    const principal = now.view === PRINCIPAL;
    const pair = now.directions.map((direction) => direction.indexOf(1));
    const [across, up] = principal ? [t("first"), t("second")] : pair.map(named);
    const nearest = nearestTo(now);
    picture.show({
      points: now.points.map(([x, y], key) => ({
        key,
        name: now.words[key],
        language: key < words.length ? LANGUAGE : undefined,
        x,
        y,
        depth: now.cosines[key],
      })),
      selected: now.selected,
      line: [now.selected, nearest],
      ...field(now.points, principal),
      across,
      up,
    });
    const left = features.map((_, i) => i).filter((i) => !pair.includes(i));
    const said = principal
      ? t("map_principal", { across: mixed(now.directions[0]), up: mixed(now.directions[1]) })
      : t("map_pair", { across, up, left: left.map((i) => `*${named(i)}*`).join(", ") });
    caption.replaceChildren(rich(`${said} ${t("map_marks")}`));
    places.replaceChildren(
      ...now.points.map(([x, y], i) =>
        make("li", {}, t("place", { word: now.words[i], across: signed(x), up: signed(y) })),
      ),
    );
  }
  return { element, caption, show };
}

/** The ends of the map: features go from 0 to 1, and there is some air around. */
function field(points, principal) {
  if (!principal) return { least: -0.1, greatest: 1.1 };
  const farthest = Math.max(...points.flat().map(Math.abs), 0.8) + 0.1;
  return { least: -farthest, greatest: farthest };
}

/** The selected word and its features first, then the others, the nearest first. */
function makeTable(t, { features, words }) {
  const caption = make("caption", {});
  const names = [t("cosine"), ...features.map((feature) => t(`feature_${feature}`))];
  const head = make("tr", {}, make("td"), ...names.map((name) => make("th", { scope: "col" }, name)));
  const body = make("tbody", {});
  const table = make("table", {}, caption, make("thead", {}, head), body);

  /** @param {Result} now */
  function show(now) {
    caption.replaceChildren(rich(t("caption", { word: literal(now.words[now.selected]) })));
    body.replaceChildren(
      ...[now.selected, ...byCosine(now)].map((i) => {
        const lang = i < words.length ? LANGUAGE : undefined;
        const row = make("tr", {}, make("th", { scope: "row", lang }, now.words[i]));
        const cosine = make("td", { class: "mha-weight" });
        showInCell(cosine, now.cosines[i]);
        row.append(cosine, ...now.rows[i].map((number) => make("td", {}, showFeature(number))));
        if (i === now.selected) row.setAttribute("aria-current", "true");
        return row;
      }),
    );
  }
  return { element: scrollBox(t("title"), table), show };
}

/** A number with two decimals and its sign as people write it. @param {number} number */
const signed = (number) => (Math.abs(number) < 0.005 ? "0" : showWeight(number).replace("-", "−"));

/** The other words, the nearest first. @param {Result} now @returns {number[]} */
function byCosine({ selected, cosines }) {
  const others = cosines.map((_, i) => i).filter((i) => i !== selected);
  return others.sort((a, b) => cosines[b] - cosines[a] || a - b);
}

/** @param {Result} now */
const nearestTo = (now) => byCosine(now)[0];

/** The state in words and numbers. @param {Result} now */
function whatWasSeen(now, recipe, t, language) {
  const { selected, points, cosines, view } = now;
  const words = now.words.map(literal);
  const inWords = new Intl.ListFormat(language, { type: "conjunction" });
  const listed = (places) =>
    inWords.format(places.map((i) => t("with_cosine", { word: words[i], cosine: showWeight(cosines[i]) })));
  const order = byCosine(now);
  const [nearest, farthest] = [order[0], order.at(-1)];
  const distance = (i) => Math.hypot(...points[i].map((each, axis) => each - points[selected][axis]));
  const least = Math.min(...order.map(distance));
  const drawn = order.filter((i) => distance(i) - least < SAME);
  const lines = [t("seen", { word: words[selected], nearest: listed([nearest]), farthest: listed([farthest]) })];
  const counts = t(view === PRINCIPAL ? "counts_principal" : "counts_pair");
  if (drawn.length === 1 && drawn[0] === nearest) lines.push(t("seen_agrees", { word: words[nearest] }));
  else lines.push(t(least < SAME ? "seen_same_place" : "seen_closest", { list: listed(drawn) }), counts);
  return lines.join(" ");
}

/** What is worth trying next. @param {Result} now @param {number} own how many words are the reader's */
function suggestion({ view, words, selected }, own) {
  if (own > 0) return "try_between";
  if (view === PRINCIPAL) return "try_add";
  return words[selected] === "horse" && view === "animal-soft" ? "try_principal" : "try_horse";
}

export default { render };
