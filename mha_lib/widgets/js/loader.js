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
  /** What demos have asked for by name, too large to travel with the page. @type {Map<string, any>} */
  const data = new Map();
  /** Every text that has arrived, by section: a demo's strings, a quiz, the loader's own. */
  const texts = {};

  const NEAR = { rootMargin: "600px" }; // what is so far from the window is near it
  let [printed, tellPrinted] = [false, null];
  /** Resolves when the page is printed: then what is far from the window counts too. */
  const whenPrinted = new Promise((resolve) => {
    tellPrinted = () => {
      printed = true;
      resolve();
    };
  });

  /** Called by each module's script. */
  function register(name, imports, source) {
    sources.set(name, { imports, source });
  }

  /** Called by each text's script: the demos' strings, or a quiz, in the page's language. */
  function addTexts(sections) {
    Object.assign(texts, sections);
  }

  /** Called by each data file's script. */
  function addData(name, value) {
    data.set(name, value);
  }

  function loadScript(file) {
    if (!scripts.has(file)) {
      scripts.set(
        file,
        new Promise((resolve, reject) => {
          const script = document.createElement("script");
          script.src = folder + file;
          script.onload = () => resolve();
          script.onerror = () => {
            scripts.delete(file); // so that it can be asked for again
            reject(new Error(`${file} did not load`));
          };
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

  async function loadData(name) {
    await loadScript(`data/${name}.js`);
    return data.get(name);
  }

  /**
   * The part of anywidget's model that demos use, computing by itself. In Jupyter nothing needs
   * to be loaded, and there is neither `load` nor `whenSeen`.
   */
  class StaticModel {
    #state;
    #compute;
    #listeners = new Map();
    #loads = [];

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

    load(name) {
      const loading = loadData(name);
      this.#loads.push(loading.catch(() => {})); // whoever asked for it is told
      return loading;
    }

    /** Resolves once an element comes near the window, or the page is printed. */
    whenSeen(element) {
      return new Promise((resolve) => {
        const watch = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && seen(), NEAR);
        function seen() {
          watch.disconnect();
          resolve();
        }
        watch.observe(element);
        whenPrinted.then(seen);
      });
    }

    /** Resolves once all that was asked for is there, or has failed. */
    settled() {
      return Promise.all(this.#loads);
    }

    #tell(name) {
      for (const listener of this.#listeners.get(`change:${name}`) ?? []) listener();
    }
  }

  async function start(element, place) {
    const modules = element.dataset.modules.split(" ");
    const state = JSON.parse(element.querySelector('script[type="application/json"]').textContent);
    const [module] = await Promise.all([
      load(modules.at(-1)),
      loadTexts(element.dataset.texts.split(" ")),
      ...modules.map(loadScript),
    ]);
    const model = new StaticModel({ ...state, texts, language }, module.compute);
    element.mhaModel = model;
    // Before anything is drawn, the page may set inputs: so a quiz gets its earlier answers.
    element.dispatchEvent(new CustomEvent("mha-model", { bubbles: true }));
    await module.default.render({ model, el: place });
    if (printed) await model.settled();
    element.dataset.ready = "";
  }

  /** Say in a demo's place that it did not start: to the reader, and to whoever mends it. */
  function apologise(element, place, problem) {
    const message = document.createElement("p");
    message.className = "mha-error";
    message.setAttribute("role", "alert");
    message.textContent = texts.not_started[language];
    place.className = "mha";
    place.lang = language;
    place.replaceChildren(message);
    element.dataset.failed = problem.message;
    reportError(problem);
  }

  /** Every demo of the page in order, and its start once that has begun. @type {Map<Element, ?Promise>} */
  const demos = new Map();

  function begin(element) {
    if (!demos.get(element)) {
      nearWindow.unobserve(element);
      const place = document.createElement("div");
      element.append(place);
      demos.set(
        element,
        start(element, place).catch((problem) => apologise(element, place, problem)),
      );
    }
    return demos.get(element);
  }

  // What is near the window starts before what is far, so that a page opens at once.
  const nearWindow = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => begin(target)),
    NEAR,
  );

  function untilIdle() {
    return new Promise((resolve) => {
      if (window.requestIdleCallback) requestIdleCallback(() => resolve(), { timeout: 2000 });
      else setTimeout(resolve, 200); // Safari
    });
  }

  // The rest starts as well, one after the other: a page may be printed without being scrolled.
  addEventListener("load", async () => {
    for (const element of demos.keys()) {
      await untilIdle();
      await begin(element);
    }
  });
  addEventListener("beforeprint", () => {
    tellPrinted();
    [...demos.keys()].forEach(begin);
  });

  /** Let a demo start in its turn, and the page's first at once. */
  function mount(element) {
    const isFirst = demos.size === 0;
    demos.set(element, null);
    // An observer answers once the whole page is laid out: a slow machine's second.
    if (isFirst) begin(element);
    else nearWindow.observe(element);
  }

  return { register, addTexts, addData, load, mount };
})();
