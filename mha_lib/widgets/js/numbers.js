/** Reads numbers as people write them. */

/**
 * The number that a reader wrote, or null. Thousands may be grouped as the language does
 * it, by spaces (thin ones too), by _ as in Python, or by ' as in Switzerland. Where a
 * language's decimal sign appears twice or more in front of three digits, it groups:
 * 1.769.472 can only be a whole number, in English too.
 * @param {string} text
 * @param {string} language
 * @returns {number | null}
 */
export function readNumber(text, language) {
  const parts = new Intl.NumberFormat(language).formatToParts(1234567.8);
  const sign = (type) => parts.find((part) => part.type === type).value.normalize("NFKC");
  const [group, decimal] = [sign("group"), sign("decimal")].map((each) => `\\${each}`);
  // NFKC turns thin, narrow and no-break spaces into plain ones, and wide digits into digits.
  const written = text.normalize("NFKC").trim().replace("−", "-").replaceAll("’", "'");
  const plain = new RegExp(`^[+-]?\\d+(${decimal}\\d+)?$`);
  const groups = [group, " ", "_", "'"].map((each) => `(${each}\\d{3})+`).join("|");
  const grouped = new RegExp(`^[+-]?\\d{1,3}(${groups})(${decimal}\\d+)?$`);
  const foreign = new RegExp(`^[+-]?\\d{1,3}(${decimal}\\d{3}){2,}$`);
  if (foreign.test(written)) return Number(written.replace(/[^\d-]/g, ""));
  if (!plain.test(written) && !grouped.test(written)) return null;
  const [whole, fraction = ""] = written.split(decimal.slice(1));
  return Number(`${whole.replace(/[^\d-]/g, "")}.${fraction}`);
}
