/** How many parameters the four matrices have, and what a change of size does to that. */

import { liveLine, make, rich, say } from "./ui.js";

/**
 * @param {(key: string, values?: object) => string} t
 * @param {(count: number) => string} number
 */
export function makeParameters(t, number) {
  const body = make("tbody");
  const heading = (key) => make("th", { scope: "col" }, t(key));
  const table = make(
    "table",
    {},
    make("caption", {}, t("parameters")),
    make("thead", {}, make("tr", {}, ...["matrix", "weights", "biases"].map(heading))),
    body,
  );
  const reason = make("p");
  const seen = liveLine();
  seen.append(rich(t("parameters_try")));
  let last = null;

  function show(sizes, parameters) {
    const rows = Object.entries(parameters);
    const sum = (matrices) => ({
      weights: matrices.reduce((total, [, { weights }]) => total + weights, 0),
      biases: matrices.reduce((total, [, { biases }]) => total + biases, 0),
    });
    const row = (name, { weights, biases }, style) =>
      make(
        "tr",
        { class: style },
        make("th", { scope: "row" }, name),
        make("td", {}, number(weights)),
        make("td", {}, number(biases)),
      );
    const all = sum(rows);
    body.replaceChildren(
      ...rows.slice(0, 3).map(([name, counts]) => row(name, counts)),
      row(t("together"), sum(rows.slice(0, 3)), "mha-sum"),
      row("W_O", parameters.W_O),
      row(t("all"), all, "mha-sum"),
    );
    const { d_model, d_k, h } = sizes;
    reason.replaceChildren(
      rich(
        t("reason", {
          h,
          d_k,
          d_model: number(d_model),
          each: number(d_model * d_k),
          whole: number(d_model * d_model),
        }),
      ),
    );
    const now = { ...sizes, ...all };
    const told = last && tellChange(last, now, t, number);
    if (told) say(seen, rich(told));
    last = now;
  }
  const scroll = make(
    "div",
    { class: "mha-scroll", tabindex: 0, role: "group", "aria-label": t("parameters") },
    table,
  );
  return { element: make("div", { class: "mha-parameters" }, scroll, reason, seen), show };
}

/** What the change of a size did to the parameters; nothing when no size changed. */
function tellChange(before, now, t, number) {
  const values = { weights: number(now.weights), biases: number(now.biases) };
  if (before.d_model !== now.d_model) {
    return t("d_model_changed", {
      ...values,
      from: number(before.d_model),
      to: number(now.d_model),
      weights_before: number(before.weights),
    });
  }
  if (before.h !== now.h) {
    return t("h_changed", {
      ...values,
      from: before.h,
      to: now.h,
      d_k_before: before.d_k,
      d_k: now.d_k,
    });
  }
  if (before.B !== now.B || before.N !== now.N) return t("B_N_changed", values);
  return "";
}
