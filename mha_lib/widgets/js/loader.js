/**
 * Runs the course's demos on the built site, where there is no kernel.
 *
 * A page opened from file:// may not load module files, so every module arrives as a
 * classic script that registers its source; here it becomes a module again, by way of
 * a Blob. A demo's state sits in the page as JSON, and its own `compute` does what
 * mha_lib does in Jupyter.
 */
window.mha ??= (() => {
  "use strict";

  const folder = document.currentScript.src.replace(/[^/]*$/, "");
  const pageLanguage = document.documentElement.lang.slice(0, 2);
  const language = ["en", "vi", "ms"].includes(pageLanguage) ? pageLanguage : "en";
  /** @type {Map<string, {imports: string[], source: string}>} */
  const sources = new Map();
  /** @type {Map<string, Promise<string>>} */
  const addresses = new Map();
  /** @type {Map<string, Promise<void>>} */
  const scripts = new Map();
  /** Every text that has arrived, by section: a demo's strings, or a quiz. */
  const texts = {};

  /** Called by each module's script. */
  function register(name, imports, source) {
    sources.set(name, { imports, source });
  }

  /** Called by each text's script: the demos' strings, or a quiz, in the page's language. */
  function addTexts(sections) {
    Object.assign(texts, sections);
  }

  function loadScript(file) {
    if (!scripts.has(file)) {
      scripts.set(
        file,
        new Promise((resolve, reject) => {
          const script = document.createElement("script");
          script.src = folder + file;
          script.onload = () => resolve();
          script.onerror = () => reject(new Error(`${file} did not load`));
          document.head.append(script);
        }),
      );
    }
    return scripts.get(file);
  }

  /** The address of a module whose imports are addresses too. */
  function addressOf(name) {
    if (!addresses.has(name)) addresses.set(name, makeAddress(name));
    return addresses.get(name);
  }

  async function makeAddress(name) {
    await loadScript(name);
    const { imports, source } = sources.get(name);
    const found = await Promise.all(imports.map(addressOf));
    const linked = imports.reduce(
      (text, needed, i) => text.replaceAll(`"./${needed}"`, JSON.stringify(found[i])),
      source,
    );
    return URL.createObjectURL(new Blob([linked], { type: "text/javascript" }));
  }

  /** Import one of the course's modules by name, e.g. `await mha.load("attention.js")`. */
  async function load(name) {
    return import(await addressOf(name));
  }

  async function loadTexts(names) {
    await Promise.all(names.map((name) => loadScript(`${name}.${language}.js`)));
    return texts;
  }

  /** The part of anywidget's model that demos use, computing by itself. */
  class StaticModel {
    #state;
    #compute;
    #listeners = new Map();

    constructor(state, compute) {
      this.#state = state;
      this.#compute = compute;
    }

    get(name) {
      return this.#state[name];
    }

    set(name, value) {
      if (this.#state[name] === value) return;
      this.#state[name] = value;
      this.#tell(name);
    }

    save_changes() {
      if (this.#compute) this.set("result", this.#compute(this.#state));
    }

    on(event, listener) {
      if (!this.#listeners.has(event)) this.#listeners.set(event, new Set());
      this.#listeners.get(event).add(listener);
    }

    off(event, listener) {
      this.#listeners.get(event)?.delete(listener);
    }

    #tell(name) {
      for (const listener of this.#listeners.get(`change:${name}`) ?? []) listener();
    }
  }

  async function start(element) {
    const state = JSON.parse(element.querySelector('script[type="application/json"]').textContent);
    const [module] = await Promise.all([
      load(element.dataset.module),
      loadTexts(element.dataset.texts.split(" ")),
    ]);
    const model = new StaticModel({ ...state, texts, language }, module.compute);
    const place = document.createElement("div");
    element.append(place);
    await module.default.render({ model, el: place });
    element.mhaModel = model;
    element.dataset.ready = "";
  }

  /** Start a demo when it comes near the window, so that a page opens at once. */
  function mount(element) {
    const watcher = new IntersectionObserver(
      (entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        watcher.disconnect();
        start(element).catch((problem) => {
          element.append(`The demo did not start: ${problem.message}`);
          throw problem;
        });
      },
      { rootMargin: "600px" },
    );
    watcher.observe(element);
  }

  return { register, addTexts, load, mount };
})();
