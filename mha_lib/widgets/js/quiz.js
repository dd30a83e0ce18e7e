/** A quiz: one form for each question, marked when its reader asks for it. */

import { readNumber } from "./numbers.js";
import { freshId, make, rich, root, say, showCount, translator } from "./ui.js";

/**
 * The answers with their marks, as the Python side gives them in Jupyter.
 * @param {Record<string, any>} state
 */
export function compute({ name, given, texts }) {
  const marks = {};
  for (const question of texts[`quiz-${name}`].questions) {
    if (question.id in given) marks[question.id] = isRight(question, given[question.id]);
  }
  return { given, marks };
}

function isRight(question, answer) {
  if (question.kind === "number") {
    return Math.abs(answer - question.answer) <= 1e-9 * Math.abs(question.answer);
  }
  return String(answer) === String(rightPlaces(question));
}

function rightPlaces({ choices }) {
  return choices.flatMap((choice, place) => (choice.right ? [place] : []));
}

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "quiz");
  const { title, questions } = model.get("texts")[`quiz-${model.get("name")}`];

  function give(id, answer) {
    const given = { ...model.get("given") };
    if (answer === undefined) delete given[id];
    else given[id] = answer;
    model.set("given", given);
    model.save_changes();
  }

  const language = model.get("language");
  const forms = questions.map((question, index) =>
    makeQuestion(question, index + 1, (answer) => give(question.id, answer), t, language),
  );
  const summary = makeSummary(questions, forms, t, () => {
    for (const form of forms) form.clear();
    model.set("given", {});
    model.save_changes();
    forms[0].focus();
  });

  function show() {
    const { given, marks } = model.get("result");
    questions.forEach(({ id }, index) => forms[index].show(given[id], marks[id]));
    summary.show(marks);
  }

  el.append(
    root(
      "quiz",
      make("p", { class: "mha-title" }, title),
      make(
        "ol",
        { class: "mha-questions" },
        ...forms.map(({ element }) => make("li", {}, element)),
      ),
      summary.element,
    ),
  );
  model.on("change:result", show);
  show();
  return () => model.off("change:result", show);
}

/**
 * One question. `give` takes the answer to mark, or undefined once the reader changes it:
 * a verdict never stands beside an answer that it is not about.
 */
function makeQuestion(question, number, give, t, language) {
  const answer =
    question.kind === "number" ? makeNumber(question, t, language) : makeChoices(question, t);
  const verdict = make("div", { class: "mha-verdict", "aria-live": "polite" });
  const hint = make(
    "details",
    {},
    make("summary", {}, t("hint")),
    make("p", {}, rich(question.hint)),
  );
  let marked = false;

  function check(event) {
    event.preventDefault();
    const { value, problem } = answer.read();
    if (problem) say(verdict, make("p", {}, t(problem.key, problem.values)));
    else give(value);
  }

  function changed() {
    silence();
    if (!marked) return;
    marked = false; // so that show() leaves the new answer, which is still being written
    give(undefined);
  }

  function silence() {
    say(verdict);
    verdict.className = "mha-verdict";
  }

  const element = make(
    "form",
    { novalidate: true, onsubmit: check, oninput: changed },
    make(
      "fieldset",
      {},
      make("legend", {}, `${number}. `, rich(question.question)),
      ...(question.kind === "many"
        ? [make("p", { class: "mha-try" }, t("all_that_are_true"))]
        : []),
      answer.element,
      make("div", { class: "mha-row" }, make("button", { type: "submit" }, t("check")), hint),
      verdict,
    ),
  );

  function show(given, right) {
    if (given === undefined) {
      // Taken back by another view of this quiz, or by who clears what was answered.
      if (marked) clear();
      marked = false;
      return;
    }
    marked = true;
    answer.write(given);
    verdict.className = `mha-verdict ${right ? "mha-right" : "mha-wrong"}`;
    const lines = answer.explain(given, right).map((line) => make("p", {}, rich(line)));
    say(verdict, make("p", { class: "mha-mark" }, t(right ? "right" : "wrong")), ...lines);
  }

  function clear() {
    element.reset();
    hint.open = false;
    silence();
  }
  return { element, show, clear, focus: () => answer.focus() };
}

function makeNumber(question, t, language) {
  const field = make("input", {
    type: "text",
    id: freshId("number"),
    inputmode: "decimal",
    autocomplete: "off",
  });
  const examples = { plain: 1234567, grouped: showCount(1234567, language) };
  return {
    element: make(
      "p",
      { class: "mha-row" },
      make("label", { for: field.id }, t("your_answer")),
      field,
    ),
    focus: () => field.focus(),
    read() {
      if (!field.value.trim()) return { problem: { key: "write_first" } };
      const value = readNumber(field.value, language);
      if (value !== null) return { value };
      const values = { written: field.value.trim(), ...examples };
      return { problem: { key: "not_a_number", values } };
    },
    write(given) {
      // What the reader wrote stays as it was written.
      if (readNumber(field.value, language) !== given) field.value = showCount(given, language);
    },
    explain(given, right) {
      if (right) return [question.right];
      const known = question.mistakes?.find(({ value }) => value === given);
      return [known ? known.because : question.wrong];
    },
  };
}

function makeChoices(question, t) {
  const group = freshId("choice");
  const type = question.kind === "one" ? "radio" : "checkbox";
  const fields = question.choices.map((_, place) =>
    make("input", { type, name: group, value: place }),
  );
  const letter = (place) => String.fromCharCode(65 + place);
  const labels = question.choices.map(({ text }, place) =>
    make(
      "label",
      { class: "mha-choice" },
      fields[place],
      make("span", { class: "mha-letter" }, letter(place)),
      make("span", {}, rich(text)),
    ),
  );
  return {
    element: make("div", {}, ...labels),
    focus: () => (fields.find((field) => field.checked) ?? fields[0]).focus(),
    read() {
      const value = fields.flatMap((field, place) => (field.checked ? [place] : []));
      return value.length ? { value } : { problem: { key: "choose_first" } };
    },
    write(given) {
      fields.forEach((field, place) => (field.checked = given.includes(place)));
    },
    explain(given, right) {
      // Choices left open are explained only once all is right: until then they are the riddle.
      const told = right ? [...question.choices.keys()] : given;
      const lines = told.map((place) => {
        const choice = question.choices[place];
        return `${letter(place)} ${choice.right ? "✓" : "✗"} ${choice.because}`;
      });
      const missing =
        type === "checkbox" && rightPlaces(question).some((place) => !given.includes(place));
      return missing ? [...lines, t("missing")] : lines;
    },
  };
}

const SIGNS = new Map([
  [true, ["✓", "is_right"]],
  [false, ["✗", "is_wrong"]],
  [undefined, ["", "is_open"]],
]);

function makeSummary(questions, forms, t, startAgain) {
  const line = make("p", { "aria-live": "polite" });
  const buttons = forms.map((form) =>
    make("button", { type: "button", onclick: () => form.focus() }),
  );
  const again = make("button", { type: "button", onclick: startAgain }, t("start_again"));

  function show(marks) {
    const counted = questions.map(({ id }) => marks[id]);
    buttons.forEach((button, index) => {
      const [sign, state] = SIGNS.get(counted[index]);
      button.textContent = `${index + 1} ${sign}`.trim();
      button.setAttribute("aria-label", `${index + 1}: ${t(state)}`);
    });
    const right = counted.filter((mark) => mark === true).length;
    const values = { right, total: questions.length };
    say(line, t(right === questions.length ? "all_right" : "so_far", values));
    again.hidden = !Object.keys(marks).length;
  }
  const element = make(
    "div",
    { class: "mha-summary" },
    line,
    make(
      "div",
      { class: "mha-row", role: "group", "aria-label": t("questions") },
      ...buttons,
      again,
    ),
  );
  return { element, show };
}

export default { render };
