/**
 * The cost explorer's picture: FLOPs against N, both axes logarithmic, so that what grows with
 * N is a straight line, and what grows with N * N one that is twice as steep.
 */

import { showFlops } from "./cost_numbers.js";
import { make, rich, showCount, svg } from "./ui.js";

const LINES = ["projections", "products", "feed_forward"];
const HEIGHT = 280;
const EDGE = { left: 74, right: 12, top: 22, bottom: 44 };

/** A short piece of a part's line, to stand beside its name; null for what has no line. */
export function lineSample(name) {
  if (!LINES.includes(name)) return null;
  const line = svg("line", { class: `mha-line mha-line-${name}`, x1: 0, x2: 34, y1: 5, y2: 5 });
  return svg("svg", { class: "mha-sample", width: 34, height: 10, "aria-hidden": "true" }, line);
}

/**
 * @param {(key: string, values?: object) => string} t
 * @param {number[]} lengths
 * @param {string} language
 */
export function costPicture(t, lengths, language) {
  const element = svg("svg", { class: "mha-picture", role: "img", height: HEIGHT });
  const caption = make("p", { class: "mha-picture-words" });
  const figure = make("div", { class: "mha-figure" }, element, caption);
  const number = (count) => showCount(count, language);
  const log = Math.log10;
  const [least, most] = [lengths[0], lengths.at(-1)];
  let result = null;
  let width = 0;

  function draw() {
    if (!result || width === 0) return;
    const { curve, seq, crossing } = result;
    const all = LINES.flatMap((name) => curve[name]);
    const [low, high] = [Math.floor(log(Math.min(...all))), Math.ceil(log(Math.max(...all)))];
    const [right, bottom] = [width - EDGE.right, HEIGHT - EDGE.bottom];
    const x = (N) => EDGE.left + ((log(N) - log(least)) / (log(most) - log(least))) * (right - EDGE.left);
    const y = (flops) => bottom - ((log(flops) - low) / (high - low)) * (bottom - EDGE.top);
    const text = (words, attributes) => svg("text", attributes, words);

    const marks = [];
    for (let power = Math.ceil(low / 3) * 3; power <= high; power += 3) {
      const at = y(10 ** power);
      marks.push(
        svg("line", { class: "mha-grid", x1: EDGE.left, x2: right, y1: at, y2: at }),
        text(showFlops(10 ** power, language).replace(/\D0(?= )/, ""), { x: EDGE.left - 6, y: at + 4, "text-anchor": "end" }),
      );
    }
    for (const N of [16, 128, 1024, 8192, 65536]) {
      marks.push(
        svg("line", { class: "mha-grid", x1: x(N), x2: x(N), y1: EDGE.top, y2: bottom }),
        text(number(N), { x: x(N), y: bottom + 16, "text-anchor": "middle" }),
      );
    }
    marks.push(text(t("axis"), { x: (EDGE.left + right) / 2, y: bottom + 34, "text-anchor": "middle" }));

    const lines = LINES.map((name) => {
      const points = curve[name].map((flops, i) => `${x(lengths[i]).toFixed(1)},${y(flops).toFixed(1)}`);
      return svg("polyline", { class: `mha-line mha-line-${name}`, points: points.join(" ") });
    });
    const anchor = x(seq) > width / 2 ? "end" : "start";
    const here = [
      svg("line", { class: "mha-here", x1: x(seq), x2: x(seq), y1: EDGE.top, y2: bottom }),
      text(t("here", { seq: number(seq) }), { x: x(seq), y: EDGE.top - 8, "text-anchor": anchor, class: "mha-strong" }),
    ];
    const meets = [];
    if (crossing !== null && crossing >= least && crossing <= most) {
      // What the projections cost is in proportion to N.
      const [cx, cy] = [x(crossing), y((curve.projections[0] / least) * crossing)];
      meets.push(
        svg("circle", { class: "mha-meets", cx, cy, r: 7 }),
        text(number(crossing), { x: cx + 2, y: cy + 24, "text-anchor": "start", class: "mha-strong" }),
      );
    }
    element.setAttribute("width", String(width));
    element.replaceChildren(...marks, ...lines, ...here, ...meets);
  }

  // Drawn in pixels, so that its words stay readable on a narrow page.
  const resized = new ResizeObserver(([{ contentRect }]) => {
    width = contentRect.width;
    draw();
  });
  resized.observe(figure);

  /** @param {import("./cost_explorer.js").Result} now */
  function show(now) {
    result = now;
    const ends = Object.fromEntries(
      LINES.flatMap((name) => [
        [`${name}_least`, showFlops(now.curve[name][0], language)],
        [`${name}_most`, showFlops(now.curve[name].at(-1), language)],
      ]),
    );
    const meets = now.crossing === null ? t("picture_apart") : t("picture_meets", { crossing: number(now.crossing) });
    const words = t("picture", { least: number(least), most: number(most), ...ends });
    element.setAttribute("aria-label", `${words} ${meets}`);
    caption.replaceChildren(rich(t("picture_caption")), " ", rich(meets));
    draw();
  }
  return { element: figure, show, stop: () => resized.disconnect() };
}
