// Draws the page's formulas with KaTeX. See book/extensions/course_math.py.
"use strict";

{
  const SLICE_MS = 12; // drawing all at once would keep the demos from starting

  /** A formula wider than its box scrolls in it, so the keyboard must be able to get there. */
  const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });

  /**
   * A drawn formula is a box, and a line may break beside it: then a full stop would begin the
   * next line. So a short one is held together with the mark that follows it or the bracket before.
   * @param {HTMLElement} formula
   * @param {string} tex
   */
  const holdMarks = (formula, tex) => {
    const [before, after] = [formula.previousSibling, formula.nextSibling];
    const opens = before instanceof Text ? /[(\[]*$/.exec(before.data)[0] : "";
    const closes = after instanceof Text ? /^[.,:;?!)\]]*/.exec(after.data)[0] : "";
    if (tex.length > 20 || !(opens || closes)) return;
    const held = document.createElement("span");
    held.className = "held-marks";
    if (opens) before.data = before.data.slice(0, -opens.length);
    if (closes) after.data = after.data.slice(closes.length);
    formula.replaceWith(held);
    held.append(opens, formula, closes);
  };

  /** @param {HTMLElement} formula */
  const draw = (formula) => {
    const displayMode = formula.tagName === "DIV";
    const tex = formula.textContent;
    try {
      katex.render(tex, formula, { displayMode });
      if (displayMode) widths.observe(formula);
      else holdMarks(formula, tex);
    } catch (error) {
      console.error(`${error.message} in ${tex}`); // the TeX stays on the page
    }
  };

  const drawAll = async () => {
    let start = performance.now();
    for (const formula of document.querySelectorAll(".tex")) {
      draw(formula);
      if (performance.now() - start > SLICE_MS) {
        await new Promise((resume) => setTimeout(resume));
        start = performance.now();
      }
    }
  };

  drawAll();
}
