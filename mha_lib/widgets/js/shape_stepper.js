/** What happens to the tensor's shape at each step, and how many parameters is that? */

import { canDraw, drawTensor, inWords } from "./shape_drawing.js";
import { makeParameters } from "./shape_parameters.js";
import { LARGEST, PRESETS, SIZES, STEPS, compute, tuple } from "./shape_steps.js";
import { freshId, liveLine, make, rich, root, say, showCount, translator } from "./ui.js";

/** @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  const t = translator(model, "shape_stepper");
  const number = (count) => showCount(count, model.get("language"));
  const problem = make("div", { id: freshId("problem"), "aria-live": "polite" });
  const controls = makeControls(model, t, problem.id);
  const steps = makeSteps(model, t);
  const seen = liveLine();
  const careful = make("div", { class: "mha-careful", "aria-live": "polite" });
  const panel = make("div", { class: "mha-panel" });
  const parameters = makeParameters(t, number);
  const working = make("div", {}, steps.element, panel, seen, careful, parameters.element);

  function show() {
    const result = model.get("result");
    controls.show(result);
    say(problem, ...describeProblem(result, t, number));
    // A size has changed before its result is there, so what is shown is the result's sizes.
    const { sizes } = result;
    working.hidden = !sizes;
    if (!sizes) return;
    const place = STEPS.findIndex((step) => step.id === model.get("step"));
    steps.show(place);
    panel.replaceChildren(...describeStep(STEPS[place], sizes, t, number));
    say(seen, rich(whatHappened(place, sizes, t)));
    say(careful, ...coincidences(place, sizes, t).map((text) => make("p", {}, rich(text))));
    parameters.show(sizes, result.parameters);
  }

  el.append(
    root(
      "stepper",
      make("p", { class: "mha-title" }, t("title")),
      make("p", { class: "mha-try" }, rich(t("try"))),
      controls.element,
      problem,
      working,
    ),
  );
  const watched = [...SIZES, "step", "result"].map((name) => `change:${name}`);
  for (const event of watched) model.on(event, show);
  show();
  return () => watched.forEach((event) => model.off(event, show));
}

function makeControls(model, t, problemId) {
  const fields = Object.fromEntries(
    SIZES.map((name) => [
      name,
      make("input", {
        type: "number",
        id: freshId(name),
        min: 1,
        max: LARGEST,
        step: 1,
        value: model.get(name),
        oninput: (event) => {
          // An empty field is sent as null, so that it is answered and not overlooked.
          const typed = event.target.valueAsNumber;
          model.set(name, Number.isNaN(typed) ? null : typed);
          model.save_changes();
        },
      }),
    ]),
  );
  const choice = make(
    "select",
    {
      id: freshId("preset"),
      onchange: () => {
        for (const [name, size] of Object.entries(PRESETS[choice.value] ?? {}))
          model.set(name, size);
        model.save_changes();
      },
    },
    ...Object.entries(PRESETS).map(([name, sizes]) =>
      make("option", { value: name }, t(`preset_${name}`, sizes)),
    ),
    make("option", { value: "own" }, t("preset_own")),
  );
  const d_k = make("output", { id: freshId("d_k") });

  function show(result) {
    const sizes = Object.fromEntries(SIZES.map((name) => [name, model.get(name)]));
    for (const [name, field] of Object.entries(fields)) {
      const typed = Number.isNaN(field.valueAsNumber) ? null : field.valueAsNumber;
      if (typed !== sizes[name]) field.value = sizes[name] ?? "";
      const wrong =
        result.invalid?.includes(name) || (result.error && ["d_model", "h"].includes(name));
      field.setAttribute("aria-invalid", String(Boolean(wrong)));
      field.setAttribute("aria-describedby", wrong ? problemId : "");
    }
    const fits = ([, preset]) => SIZES.every((name) => preset[name] === sizes[name]);
    choice.value = Object.entries(PRESETS).find(fits)?.[0] ?? "own";
    d_k.textContent = result.sizes?.d_k ?? "–";
  }

  const labelled = (label, field) =>
    make("span", { class: "mha-size" }, make("label", { for: field.id }, rich(label)), field);
  const element = make(
    "div",
    {},
    make("div", { class: "mha-row" }, labelled(t("presets"), choice)),
    make(
      "div",
      { class: "mha-sizes" },
      ...SIZES.map((name) => labelled(t(`label_${name}`), fields[name])),
      labelled(t("label_d_k"), d_k),
    ),
  );
  return { element, show };
}

function describeProblem(result, t, number) {
  if (result.invalid) {
    return result.invalid.map((name) =>
      make("p", { class: "mha-error" }, rich(t("not_a_size", { name, largest: number(LARGEST) }))),
    );
  }
  if (result.too_many) return [make("p", { class: "mha-error" }, rich(t("too_many")))];
  if (!result.error) return [];
  // The library speaks English everywhere; its words are quoted, not translated.
  return [
    make("p", {}, t("mha_lib_says")),
    make("p", { class: "mha-error", lang: "en" }, make("code", {}, result.error)),
    make("p", {}, rich(t("why_divisible"))),
  ];
}

function makeSteps(model, t) {
  function go(place) {
    if (place < 0 || place >= STEPS.length) return;
    model.set("step", STEPS[place].id);
    model.save_changes();
  }
  const here = () => STEPS.findIndex((step) => step.id === model.get("step"));
  const buttons = STEPS.map((step, place) =>
    make("button", { type: "button", onclick: () => go(place) }, t(`step_${step.id}`)),
  );
  const list = make(
    "ol",
    {
      class: "mha-steps",
      "aria-label": t("steps"),
      onkeydown: (event) => {
        const to = {
          ArrowLeft: here() - 1,
          ArrowRight: here() + 1,
          Home: 0,
          End: STEPS.length - 1,
        };
        // With Ctrl, Alt or Meta the keys are the browser's own: Alt+← goes back a page.
        if (!(event.key in to) || event.ctrlKey || event.altKey || event.metaKey) return;
        event.preventDefault();
        go(to[event.key]);
        buttons[here()].focus();
      },
    },
    ...buttons.map((button) => make("li", {}, button)),
  );
  const previous = make("button", { type: "button", onclick: () => go(here() - 1) }, t("previous"));
  const next = make("button", { type: "button", onclick: () => go(here() + 1) }, t("next"));

  function show(place) {
    buttons.forEach((button, each) => {
      if (each === place) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    });
    // Not `disabled`: that would throw a keyboard reader's focus away at the last step.
    previous.setAttribute("aria-disabled", String(place === 0));
    next.setAttribute("aria-disabled", String(place === STEPS.length - 1));
  }
  return {
    element: make("div", {}, list, make("div", { class: "mha-row" }, previous, next)),
    show,
  };
}

function describeStep(step, sizes, t, number) {
  const last = step.way.at(-1);
  const drawn = canDraw(sizes);
  const way = step.way.map((stage) => describeStage(stage, sizes, drawn, t));
  const code = make("code", {}, step.code.join("\n"));
  return [
    make("p", { class: "mha-step" }, rich(t(`does_${step.id}`))),
    make("pre", { class: "mha-scroll", role: "group", tabindex: 0, "aria-label": t("code") }, code),
    make("div", { class: "mha-way" }, ...way),
    make("p", { class: "mha-try" }, rich(t(drawn ? "drawn" : "not_drawn", { B: sizes.B }))),
    make("p", {}, rich(countNumbers(last, sizes, t, number))),
  ];
}

function describeStage({ from, name, axes, look }, sizes, drawn, t) {
  const words = () => make("p", { class: "mha-words" }, inWords(look, sizes, t));
  // The first stage came from nowhere; a blank keeps its shape level with the others.
  return make(
    "div",
    { class: "mha-stage" },
    make("code", { class: "mha-from" }, from || "\u00a0"),
    make("code", {}, `${name} (${axes.join(", ")})`),
    make("code", { class: "mha-shape" }, tuple(axes, sizes)),
    drawn ? drawTensor(look, sizes, t) : words(),
  );
}

function countNumbers({ name, axes }, sizes, t, number) {
  const counts = axes.map((axis) => sizes[axis]);
  const count = counts.reduce((product, each) => product * each, 1);
  const values = { name, product: counts.map(number).join(" × "), count: number(count) };
  const mebibytes = (count * 4) / 2 ** 20;
  if (mebibytes < 1) return t("count", values);
  const [amount, unit] = mebibytes < 1024 ? [mebibytes, "MiB"] : [mebibytes / 1024, "GiB"];
  return t("count_memory", { ...values, memory: `${number(Number(amount.toFixed(1)))} ${unit}` });
}

function whatHappened(place, sizes, t) {
  const { id, way } = STEPS[place];
  const [before, after] = [way[0], way.at(-1)].map(({ axes }) => tuple(axes, sizes));
  const key = way.length === 1 ? "seen_start" : before === after ? "seen_same" : "seen_changed";
  return t(key, { step: place + 1, steps: STEPS.length, name: t(`step_${id}`), before, after });
}

/** Where equal sizes hide a difference that the shapes of the steps so far would otherwise show. */
function coincidences(place, sizes, t) {
  const reached = (id) => place >= STEPS.findIndex((step) => step.id === id);
  const { B, N, h, d_k } = sizes;
  const values = { ...sizes, split: tuple(["B", "h", "N", "d_k"], sizes) };
  const found = [];
  if (N === d_k && reached("combine")) found.push(t("trap_N_d_k", values));
  if (B === h && reached("split")) found.push(t("trap_B_h", values));
  if (N === h && reached("split")) found.push(t("trap_N_h", values));
  if (found.length) found.push(t("trap_way_out"));
  return found;
}

export { compute };
export default { render };
