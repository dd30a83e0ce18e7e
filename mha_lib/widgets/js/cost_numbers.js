/** The cost explorer's numbers as readers see them. */

const FLOPS = ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Rounded to one digit after the point, in the unit that fits, as mha_lib.cost has it. */
function rounded(count, units, step, language) {
  let power = 0;
  // A number that would be rounded to a whole step is said in the next unit.
  const inUnit = () => Math.round((count / step ** power) * 10) / 10;
  while (inUnit() >= step && power < units.length - 1) power += 1;
  const digits = power ? 1 : 0;
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return `${inUnit().toLocaleString(language, options)} ${units[power]}`;
}

/** @param {number} count @param {string} language */
export const showFlops = (count, language) => rounded(count, FLOPS, 1000, language);
/** @param {number} count @param {string} language */
export const showBytes = (count, language) => rounded(count, BYTES, 1024, language);

/** A part of a whole: 3%, or < 1%. @param {number} share @param {string} language */
export function showShare(share, language) {
  const percent = (number) => number.toLocaleString(language, { style: "percent" });
  return share > 0 && share < 0.01 ? `< ${percent(0.01)}` : percent(share);
}

/** How many times as much: × 2, or × 2.03. @param {number} growth @param {string} language */
export const showGrowth = (growth, language) =>
  `×\u00a0${growth.toLocaleString(language, { maximumFractionDigits: 2 })}`;

/** What the FLOPs of a pass are spent on. */
export const WORK = ["projections", "products", "feed_forward", "ends"];

/** All FLOPs of one pass. @param {import("./cost_explorer.js").Parts} parts */
export const together = (parts) => WORK.reduce((sum, name) => sum + parts[name], 0);
