/** The masks that have a name. In a pattern, true means that the query may look at the key. */

/** @type {Record<string, (i: number, j: number, length: number) => boolean>} query i, key j */
const KEEPS = {
  causal: (i, j) => j <= i,
  padding: (_, j, length) => j < length,
  window: (i, j) => Math.abs(i - j) <= 1,
  free: () => true,
};

export const PATTERNS = ["causal", "padding", "window"];

/**
 * A pattern's mask, (N, N); for "free" the one to start from, which hides nothing.
 * @param {string} pattern
 * @param {number} length how many words are real
 * @param {number} N how many words there are, padding too
 * @returns {boolean[][]}
 */
export function keptBy(pattern, length, N) {
  const places = Array.from({ length: N }, (_, place) => place);
  return places.map((i) => places.map((j) => KEEPS[pattern](i, j, length)));
}

/** Which pattern a mask is, or "free". @param {boolean[][]} keep @param {number} length */
export function patternOf(keep, length) {
  const N = keep.length;
  // Where nothing is padded, hiding the padding hides nothing.
  const known = PATTERNS.filter((pattern) => pattern !== "padding" || length < N);
  return known.find((pattern) => same(keep, keptBy(pattern, length, N))) ?? "free";
}

/** Every entry turned round: what mha_lib.from_ignore_mask does. @param {boolean[][]} mask */
export function flipped(mask) {
  return mask.map((row) => row.map((entry) => !entry));
}

function same(one, other) {
  return one.every((row, i) => row.every((entry, j) => entry === other[i][j]));
}
