// What a reader has answered in the quizzes: kept in their own browser, shown beside each
// chapter in the table of contents, cleared with one click. Nothing is sent anywhere.
//
// A quiz knows nothing of this: it shows the answers that its model holds. quizzes.js says
// which quizzes there are, a version of each question, and the words of this edition.
"use strict";

{
  // Answers are places and numbers, the same in every edition, so all editions share them.
  const KEY = "attention-course.progress.1";
  const LONGEST = 200_000; // characters; ten times what all the quizzes need
  const TABLES = ".bd-sidebar-primary nav.bd-links a, .toctree-wrapper a"; // of contents
  const { versions, words } = window.courseQuizzes;

  /**
   * What has been answered: {quiz: {question: {version, given, right}}}.
   * @typedef {Record<string, Record<string, {version: string, given: any, right: boolean}>>} Kept
   */

  /**
   * What the browser would not store (it refuses, or is full): it lives as long as the page.
   * @type {?Kept}
   */
  let unsaved = null;

  const isObject = (value) => typeof value === "object" && value !== null;

  /**
   * What is stored, without what is broken, unknown, or about a question as it once was.
   * @returns {Kept}
   */
  function read() {
    if (unsaved) return unsaved;
    let stored;
    try {
      const text = localStorage.getItem(KEY) ?? "{}";
      stored = text.length > LONGEST ? {} : JSON.parse(text);
    } catch {
      stored = {};
    }
    const kept = {};
    for (const [quiz, questions] of Object.entries(versions)) {
      const known = Object.entries(questions).flatMap(([id, version]) => {
        const answer = ownPart(ownPart(stored, quiz), id);
        if (ownPart(answer, "version") !== version || !("given" in answer)) return [];
        return [[id, { version, given: answer.given, right: answer.right === true }]];
      });
      if (known.length) kept[quiz] = Object.fromEntries(known);
    }
    return kept;
  }

  function ownPart(value, name) {
    return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  }

  /** @param {Kept} kept */
  function write(kept) {
    try {
      if (Object.keys(kept).length) localStorage.setItem(KEY, JSON.stringify(kept));
      else localStorage.removeItem(KEY);
      unsaved = null;
    } catch {
      unsaved = kept;
    }
  }

  /** Whether a stored answer is one that this question can have. */
  function fits(question, given) {
    if (question.kind === "number") return typeof given === "number" && Number.isFinite(given);
    return (
      Array.isArray(given) &&
      given.length > 0 &&
      (question.kind === "many" || given.length === 1) &&
      given.every(
        (place, i) =>
          Number.isInteger(place) && place in question.choices && !(given[i - 1] >= place),
      )
    );
  }

  /**
   * Quizzes of this page, by name: what puts the stored answers into each.
   * @type {Map<string, () => void>}
   */
  const restorers = new Map();

  /** Give a quiz its earlier answers before it is drawn, and keep what its reader answers. */
  function attend(model) {
    const name = model.get("name");
    const { questions } = model.get("texts")[`quiz-${name}`];

    function restore() {
      const answers = read()[name] ?? {};
      const given = {};
      for (const question of questions) {
        const answer = ownPart(answers, question.id);
        if (answer && fits(question, answer.given)) given[question.id] = answer.given;
      }
      if (JSON.stringify(given) === JSON.stringify(inOrder(model.get("given")))) return;
      model.set("given", given);
      model.save_changes();
    }

    function inOrder(given) {
      const present = questions.filter(({ id }) => Object.hasOwn(given, id));
      return Object.fromEntries(present.map(({ id }) => [id, given[id]]));
    }

    function save() {
      const { given, marks } = model.get("result");
      const kept = read();
      delete kept[name];
      const answers = Object.entries(inOrder(given)).map(([id, answer]) => [
        id,
        { version: versions[name][id], given: answer, right: marks[id] },
      ]);
      if (answers.length) kept[name] = Object.fromEntries(answers);
      write(kept);
      show();
    }

    model.on("change:result", save);
    restorers.set(name, restore);
    restore();
    // What was stored and does not fit, or was marked otherwise, is put right.
    if (Object.hasOwn(read(), name)) save();
  }

  document.addEventListener("mha-model", ({ target }) => {
    const isQuiz = target.dataset.modules.split(" ").at(-1) === "quiz.js";
    if (isQuiz && Object.hasOwn(versions, target.mhaModel.get("name"))) attend(target.mhaModel);
  });

  /** `say("count", { right: 5, total: 7 })`: words of this edition. */
  function say(key, values = {}) {
    return words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
  }

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /** How many answers in how many chapters there are, in words. @param {Kept} kept */
  function amount(kept) {
    const quizzes = Object.values(kept);
    const answers = quizzes.reduce((sum, questions) => sum + Object.keys(questions).length, 0);
    const counted = (what, count) => say(count === 1 ? `one_${what}` : `many_${what}s`, { count });
    return say("amount", {
      answers: counted("answer", answers),
      chapters: counted("chapter", quizzes.length),
    });
  }

  /** The chapter that a link leads to: its name, or undefined. */
  function chapterOf(link) {
    const root = new URL(document.documentElement.dataset.content_root, location.href);
    const { pathname } = new URL(link.href);
    if (!pathname.startsWith(root.pathname)) return undefined;
    const name = pathname.slice(root.pathname.length).replace(/\.html$/, "");
    return Object.hasOwn(versions, name) ? name : undefined;
  }

  /** @type {[string, HTMLElement][]} */
  let marks = [];
  let panel, button, line;

  function build() {
    const links = document.querySelectorAll(TABLES);
    marks = [...links].flatMap((link) => {
      const name = chapterOf(link);
      if (!name) return [];
      const mark = make("span", { class: "course-progress" });
      link.append(mark);
      return [[name, mark]];
    });
    line = make("p", { role: "status", tabindex: "-1" });
    button = make("button", { type: "button" });
    button.addEventListener("click", clear);
    panel = make("div", { role: "group", "aria-label": say("title") }, line, button);
    panel.className = "sidebar-primary-item course-progress-panel";
    document.querySelector(".bd-sidebar-primary .sidebar-primary-items__start")?.append(panel);
    show();
  }

  /** Show what is kept, beside each chapter and on the button that clears it. */
  function show() {
    if (!panel) return; // the page is still being read
    const kept = read();
    for (const [name, mark] of marks) {
      const answers = kept[name];
      mark.replaceChildren();
      if (!answers) continue;
      const total = Object.keys(versions[name]).length;
      const right = Object.values(answers).filter((answer) => answer.right).length;
      const seen = say(right === total ? "all_seen" : "seen", { right, total });
      const heard = say(right === total ? "all_heard" : "heard", { right, total });
      mark.append(
        make("span", { "aria-hidden": "true" }, seen),
        make("span", { class: "visually-hidden" }, ` ${heard}`),
      );
    }
    const any = Object.keys(kept).length > 0;
    button.hidden = !any;
    button.textContent = any ? say("clear", { amount: amount(kept) }) : "";
    if (any) line.textContent = "";
    panel.hidden = !any && !line.textContent;
  }

  function clear() {
    const cleared = amount(read());
    write({});
    // What cannot be removed from storage is not shown again on this page either.
    for (const restore of restorers.values()) restore();
    line.textContent = say("cleared", { amount: cleared });
    show();
    line.focus(); // the button is gone
  }

  /** Another window has answered or cleared, or this page comes back from the browser's memory. */
  function refresh() {
    for (const restore of restorers.values()) restore();
    show();
  }

  document.addEventListener("DOMContentLoaded", build);
  addEventListener("storage", ({ key }) => (key === KEY || key === null) && refresh());
  addEventListener("pageshow", ({ persisted }) => persisted && refresh());
}
