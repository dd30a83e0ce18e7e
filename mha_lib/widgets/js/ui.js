/** Small helpers that every demo's page side shares. */

let counter = 0;

/** A fresh id, for labels and descriptions. @param {string} stem @returns {string} */
export function freshId(stem) {
  counter += 1;
  return `mha-${stem}-${counter}`;
}

/**
 * Make an element: `make("button", { type: "button", onclick }, "Next")`.
 * Attributes that start with "on" become listeners; true sets an empty attribute; false,
 * null and undefined leave it out.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node|string)} children
 * @returns {HTMLElement}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/**
 * Make an element of a drawing, as `make` does.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node|string)} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/**
 * What sets several traits at once, since what follows from them is one result.
 * @param {{set(name: string, value: any): void, save_changes(): void}} model
 * @returns {(traits: Record<string, any>) => void}
 */
export function changer(model) {
  return (traits) => {
    for (const [name, value] of Object.entries(traits)) model.set(name, value);
    model.save_changes();
  };
}

/**
 * The demo's texts: `t("seen", { word: "yêu" })` fills in `{word}`.
 * @param {{get(name: string): any}} model
 * @param {string} demo
 * @returns {(key: string, values?: Record<string, string|number>) => string}
 */
export function translator(model, demo) {
  const texts = model.get("texts")[demo] ?? {};
  return (key, values = {}) => {
    if (!(key in texts)) throw new Error(`no text ${demo}.${key}`);
    return texts[key].replace(/\{(\w+)\}/g, (_, name) => {
      if (values[name] === undefined) throw new Error(`text ${demo}.${key} needs {${name}}`);
      return String(values[name]);
    });
  };
}

/** A weight as readers see it everywhere: two decimals, no leading zero. @param {number} weight */
export function showWeight(weight) {
  return weight.toFixed(2).replace(/^0\./, ".").replace(/^-0\./, "-.");
}

/** A number with two decimals, written like a weight, never minus zero. @param {number} number */
export function showNumber(number) {
  return showWeight(Math.abs(number) < 0.005 ? 0 : number);
}

/** A whole number with thin groups: 2,359,296. @param {number} count @param {string} language */
export function showCount(count, language = "en") {
  return count.toLocaleString(language);
}

/**
 * A quiet line that screen readers hear when it changes.
 * @returns {HTMLElement}
 */
export function liveLine() {
  return make("p", { class: "mha-seen", "aria-live": "polite" });
}

/**
 * A reader's own words, to stand in a text that becomes `rich`: no sign in them is markup.
 * @param {string} words
 */
export function literal(words) {
  return words.replace(/[\\`*]/g, "\\$&");
}

/**
 * A text of the catalogue as nodes: `code` and *emphasis* are all the markup there is. A sign
 * behind a backslash is none.
 * @param {string} text
 * @param {string} [language] what *emphasised* words are in, where that is not the text's own
 * @returns {DocumentFragment}
 */
export function rich(text, language) {
  const nodes = document.createDocumentFragment();
  const plain = (piece) => piece.replace(/\\([\\`*])/g, "$1");
  for (const piece of text.split(/((?<!\\)(?:`(?:\\.|[^\\`])*`|\*(?:\\.|[^\\*])*\*))/)) {
    if (piece.length > 1 && piece.startsWith("`"))
      nodes.append(make("code", {}, plain(piece.slice(1, -1))));
    else if (piece.length > 1 && piece.startsWith("*"))
      nodes.append(make("em", { lang: language }, plain(piece.slice(1, -1))));
    else nodes.append(plain(piece));
  }
  return nodes;
}

/**
 * A demo's own element. JupyterLab in command mode takes plain keys from whatever has the
 * focus in an output ("dd" deletes the cell) unless that very element says not to.
 * @param {string} demo
 * @param {...(Node|string)} children
 * @returns {HTMLElement}
 */
export function root(demo, ...children) {
  const keepKeys = (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true");
  return make("section", { class: `mha mha-${demo}`, onfocusin: keepKeys }, ...children);
}

/**
 * A native slider with its name and its value, which a screen reader hears as it is written.
 * @param {object} parts
 * @param {Node|string} parts.label
 * @param {number} [parts.min]
 * @param {number} parts.max
 * @param {number} [parts.step]
 * @param {(value: number) => void} parts.oninput the reader moved it
 * @param {(value: number) => string} [parts.write] the value as people write it
 * @returns {{element: HTMLElement, show(value: number): void, value(): number}}
 */
export function slider({ label, min = 0, max, step = 1, oninput, write = String }) {
  const id = freshId("slider");
  const written = make("output", { for: id });
  const moved = () => oninput(Number(input.value));
  const input = make("input", { type: "range", id, min, max, step, oninput: moved });
  function show(value) {
    if (Number(input.value) !== value) input.value = String(value);
    written.textContent = write(value);
    input.setAttribute("aria-valuetext", written.textContent);
  }
  const name = make("label", { for: id }, label);
  return { element: make("div", { class: "mha-slider" }, name, input, written), show, value: () => Number(input.value) };
}

/**
 * A box in which wide content scrolls, so that the page does not. While there is more than
 * it shows, it is a stop for the Tab key: the arrow keys scroll it from there.
 * @param {string} label what is in it
 * @param {...Node} children
 * @returns {HTMLElement}
 */
export function scrollBox(label, ...children) {
  const box = make("div", { class: "mha-scroll" }, ...children);
  const whileWide = { tabindex: "0", role: "group", "aria-label": label };
  const resized = new ResizeObserver(() => {
    const wide = box.scrollWidth > box.clientWidth;
    for (const [name, value] of Object.entries(whileWide)) {
      if (wide) box.setAttribute(name, value);
      else box.removeAttribute(name);
    }
  });
  for (const element of [box, ...children]) resized.observe(element);
  return box;
}

/**
 * Change what a live region says, but only to something new: what is put in its place
 * unchanged, a screen reader would read out again.
 * @param {HTMLElement} region
 * @param {...(Node|string)} nodes
 */
export function say(region, ...nodes) {
  const news = make("div", {}, ...nodes);
  if (news.textContent !== region.textContent) region.replaceChildren(...news.childNodes);
}

/**
 * A listener that goes with the arrow keys, Home and End from button to button in a row, of which
 * one is chosen at a time.
 * @param {() => HTMLElement[]} row the buttons, as they are now
 * @param {(place: number) => void} choose
 * @returns {(event: KeyboardEvent) => void}
 */
export function arrowKeys(row, choose) {
  return (event) => {
    const buttons = row();
    const here = buttons.indexOf(event.target);
    const there = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (there === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    if (!buttons[there]) return;
    choose(there);
    buttons[there].focus();
  };
}
