/**
 * The weights of a pretrained model's heads on one sentence, as `mha_lib.pretrained` packs them.
 *
 * @typedef {object} Sentence
 * @property {number} model which of the models
 * @property {string[]} tokens @property {number[]} special @property {(number|null)[]} words
 */

const STEPS = 255; // of a weight, from 0 to 1

/** The bytes of all heads, (layers, h, N, N). @param {string} packed */
export function unpackWeights(packed) {
  return Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
}

/**
 * The weights of one head.
 * @param {Uint8Array} bytes @param {number} place of the head among all, layer by layer
 * @param {number} count of tokens
 * @returns {number[][]} (N, N)
 */
export function weightsOf(bytes, place, count) {
  const start = place * count * count;
  return Array.from({ length: count }, (_, i) =>
    Array.from(bytes.subarray(start + i * count, start + (i + 1) * count), (steps) => steps / STEPS),
  );
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/**
 * Take special tokens out and let each row of what is left sum to 1 again, as
 * `mha_lib.pretrained.reading.without` does.
 * @param {number[][]} weights (N, N) @param {number[]} kept the tokens that stay
 * @returns {{shown: number[][], left_out: number[]}} (n, n), and (n) what each row lost
 */
export function without(weights, kept) {
  const rows = kept.map((i) => weights[i]);
  const left = rows.map((row) => kept.map((j) => row[j]));
  const sums = left.map(sum);
  return {
    shown: left.map((row, i) => row.map((weight) => (sums[i] > 0 ? weight / Math.max(sums[i], 1e-12) : 0))),
    left_out: rows.map((row, i) => sum(row) - sums[i]),
  };
}

/** The tokens that are drawn. @param {Sentence} sentence @param {boolean} wordsOnly @returns {number[]} */
export function keptTokens({ special }, wordsOnly) {
  return special.map((_, i) => i).filter((i) => !wordsOnly || !special[i]);
}

/**
 * For each relation that is a place, the pairs of a token and where it leads, as
 * `mha_lib.pretrained.relations.PLACES`.
 * @param {Sentence} sentence @returns {Record<string, [number, number][]>}
 */
export function placesIn({ special, words }) {
  const all = special.map((_, i) => i);
  const plain = all.filter((i) => !special[i]);
  const added = all.filter((i) => special[i]);
  const next = (step) => plain.filter((i) => plain.includes(i + step)).map((i) => [i, i + step]);
  const at = (there) => plain.flatMap((i) => (there === undefined ? [] : [[i, there]]));
  return {
    previous: next(-1),
    next: next(1),
    itself: next(0),
    first: at(added[0]),
    last: at(added.length > 1 ? added.at(-1) : undefined),
    same_word: plain.flatMap((i) => plain.filter((j) => i !== j && words[i] === words[j]).map((j) => [i, j])),
  };
}

/** The mean weight at some pairs; null where there are none. */
export function meanAt(weights, pairs) {
  return pairs.length ? sum(pairs.map(([i, j]) => weights[i][j])) / pairs.length : null;
}
