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

  /** @param {HTMLElement} formula */
  const draw = (formula) => {
    const displayMode = formula.tagName === "DIV";
    const tex = formula.textContent;
    try {
      katex.render(tex, formula, { displayMode });
      if (displayMode) widths.observe(formula);
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
