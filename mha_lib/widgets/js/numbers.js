/** Reads numbers as people write them. */

/** Wide digits and signs as usual ones, every kind of space as a plain one. */
const plainly = (text) =>
  text.replace(/[！-～]/g, (wide) => wide.normalize("NFKC")).replace(/\s/g, " ");

/**
 * The number that a reader wrote, or null. Thousands may be grouped as the language does
 * it, by spaces (thin ones too), by _ as in Python, or by ' as in Switzerland. Where a
 * language's decimal sign appears twice or more in front of three digits, it groups:
 * 1.769.472 can only be a whole number, in English too. The zero of 0.5 may be left out,
 * and a full stop may end the answer as it ends a sentence.
 * @param {string} text
 * @param {string} language
 * @returns {number | null}
 */
export function readNumber(text, language) {
  const parts = new Intl.NumberFormat(language).formatToParts(1234567.8);
  const sign = (type) => plainly(parts.find((part) => part.type === type).value);
  const [group, decimal] = [sign("group"), sign("decimal")].map((each) => `\\${each}`);
  const written = plainly(text)
    .trim()
    .replace("−", "-")
    .replaceAll("’", "'")
    .replace(new RegExp(`(?<=\\d)(\\.|${decimal})$`), "");
  const plain = new RegExp(`^[+-]?(\\d+|\\d*${decimal}\\d+)$`);
  const groups = [group, " ", "_", "'"].map((each) => `(${each}\\d{3})+`).join("|");
  const grouped = new RegExp(`^[+-]?\\d{1,3}(${groups})(${decimal}\\d+)?$`);
  const foreign = new RegExp(`^[+-]?\\d{1,3}(${decimal}\\d{3}){2,}$`);
  if (![plain, grouped, foreign].some((form) => form.test(written))) return null;
  const [whole, fraction] = foreign.test(written)
    ? [written, ""]
    : written.split(decimal.slice(1));
  const number = Number(`${whole.replace(/[^\d-]/g, "")}.${fraction ?? ""}`);
  // Hundreds of digits are beyond what the page can hold, and become Infinity.
  return Number.isFinite(number) ? number : null;
}
