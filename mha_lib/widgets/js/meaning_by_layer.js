/**
 * One word in two meanings, layer by layer: how near its uses are to one another.
 *
 * @typedef {object} Result
 * @property {number[][]} table (n, n), the cosines of the uses
 * @property {number} same @property {number} other the mean cosines within and between meanings
 * @property {number} nearest of how many uses the nearest other has the same meaning
 */

import { curvesPicture } from "./curves.js";
import { heatmap } from "./heatmap.js";
import { changer, freshId, liveLine, make, rich, root, say, scrollBox, showWeight, slider, translator } from "./ui.js";

/** What MeaningByLayer.compute does in Python. @returns {Result} */
export function compute({ recipe, layer }) {
  const [same, other, nearest] = recipe.apart[layer];
  return { table: recipe.cosines[layer], same, other, nearest };
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "meaning_by_layer");
  const { uses, apart, word } = model.get("recipe");
  const change = changer(model);
  const titleId = freshId("title");

  const layers = apart.map((_, i) => i);
  const layer = slider({ label: t("layer"), max: layers.length - 1, oninput: (value) => change({ layer: value }) });
  const picture = curvesPicture();
  const seen = liveLine();
  const name = (i) => make("span", {}, t(`use_${uses[i][0]}`, { number: i + 1 }));
  const places = uses.map((_, i) => i);
  const map = heatmap({ caption: "", corner: t("corner"), rows: places.map(name), columns: places.map(name) });
  const sentences = places.map((i) =>
    make("button", { type: "button", lang: "en", onclick: () => change({ use: i }) }, `${i + 1} ${uses[i][1]}`),
  );
  const group = freshId("uses");
  const demo = root(
    "heads mha-meaning",
    make("p", { class: "mha-title", id: titleId }, t("title")),
    make("p", { class: "mha-try" }, rich(t("try"))),
    layer.element,
    seen,
    picture.element,
    scrollBox(t("table"), map.element),
    make("p", { class: "mha-subtitle", id: group }, t("sentences")),
    make("div", { class: "mha-uses", role: "group", "aria-labelledby": group }, ...sentences),
    make("p", { class: "mha-note" }, rich(t("note"))),
  );
  demo.setAttribute("aria-labelledby", titleId);
  map.element.style.setProperty("--mha-head", "var(--mha-head-0)");
  el.append(demo);

  function draw() {
    const [at, use, { table, same, other, nearest }] = ["layer", "use", "result"].map((each) => model.get(each));
    layer.show(at);
    picture.show({
      curves: [
        { name: t("same"), look: "first", values: apart.map((each) => each[0]) },
        { name: t("other"), look: "second", values: apart.map((each) => each[1]) },
      ],
      steps: layers,
      at,
      across: t("across"),
    });
    map.element.caption.replaceChildren(rich(t("table_of", { layer: at, word })));
    map.show(table, use);
    sentences.forEach((button, i) => button.setAttribute("aria-pressed", String(i === use)));
    const values = { layer: at, same: showWeight(same), other: showWeight(other), nearest, all: uses.length };
    say(seen, rich(t(at === 0 ? "seen_first" : "seen", values)));
  }
  const events = ["change:result", "change:use"];
  for (const event of events) model.on(event, draw);
  draw();
  return () => events.forEach((event) => model.off(event, draw));
}

export default { render };
