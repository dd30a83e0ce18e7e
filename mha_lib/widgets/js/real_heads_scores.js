/** What a head follows, and what else would get the same score: a table. */

import { make, rich, scrollBox, showWeight } from "./ui.js";

/** Relations that are a place come first; those that people have labelled follow. */
const PLACES = ["previous", "next", "itself", "first", "last", "same_word"];
const COLUMNS = ["relation", "here", "over_all", "best", "chance", "untrained", "offset"];
const dash = "–";

/**
 * @param {(key: string, values?: object) => string} t
 * @param {(traits: object) => void} change
 */
export function scoresOfHeads(t, change) {
  const body = make("tbody");
  const caption = make("caption");
  const heads = COLUMNS.map((name) => make("th", { scope: "col" }, t(`column_${name}`)));
  const table = make("table", { class: "mha-scores" }, caption, make("thead", {}, make("tr", {}, ...heads)), body);
  const element = make("div", {}, scrollBox(t("scores"), table));

  function row(name, now) {
    const { result, layer, head } = now;
    const score = result.relations[name];
    const here = result.here[name] ?? null;
    if (!score && here === null) return [];
    const weight = (value) => (value === null || value === undefined ? dash : showWeight(value));
    const cells = [weight(here), weight(score?.heads[layer][head]), score ? best(score, now) : dash];
    const base = [weight(score?.chance), weight(score?.untrained), offset(score)];
    const label = make("th", { scope: "row" }, t(`relation_${name}`));
    return [make("tr", {}, label, ...[...cells, ...base].map((cell) => make("td", {}, cell)))];
  }

  /** The best head, which can be gone to. */
  function best({ best: [layer, head], heads }, now) {
    const text = `${layer}.${head}: ${showWeight(heads[layer][head])}`;
    const here = now.layer === layer && now.head === head;
    const name = t("go_to", { layer, head });
    return make("button", { type: "button", "aria-pressed": String(here), title: name, onclick: () => change({ layer, head }) }, text);
  }

  function offset(score) {
    if (!score?.offset) return dash;
    const [distance, share] = score.offset;
    return `${distance > 0 ? "+" : "−"}${Math.abs(distance)}: ${showWeight(share)}`;
  }

  function show(now) {
    const labelled = Object.keys(now.result.relations).filter((name) => !PLACES.includes(name));
    const focused = [...body.querySelectorAll("button")].indexOf(document.activeElement);
    body.replaceChildren(...[...PLACES, ...labelled].flatMap((name) => row(name, now)));
    // A button that was pressed is made anew: whoever pressed it is still there.
    body.querySelectorAll("button")[focused]?.focus();
    const { layer, head, model } = now;
    caption.replaceChildren(rich(t(model.measured ? "scores_of" : "scores_here", { layer, head, count: model.measured })));
  }
  return { element, show };
}
