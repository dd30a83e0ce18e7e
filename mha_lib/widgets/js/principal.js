/** The directions in which points differ most, as numpy's singular vectors give them. */

import { matmul, transpose } from "./attention.js";

/** Enough for a direction that is only a little stronger than the next. */
const ROUNDS = 500;

/** The mean of each column. @param {number[][]} rows (n, d) @returns {number[]} (d) */
export function mean(rows) {
  return transpose(rows).map((column) => column.reduce((sum, each) => sum + each, 0) / column.length);
}

/**
 * The `count` strongest principal directions, each of length 1. A direction and its opposite
 * serve alike: this is the one whose largest number is above 0.
 * @param {number[][]} rows (n, d)
 * @param {number} count
 * @returns {number[][]} (count, d)
 */
export function principalDirections(rows, count) {
  const centre = mean(rows);
  const moved = rows.map((row) => row.map((each, column) => each - centre[column])); // (n, d)
  let spread = matmul(transpose(moved), moved); // (d, d)
  return Array.from({ length: count }, () => {
    const { direction, strength } = strongest(spread);
    // What is left is spread at right angles to the direction.
    spread = spread.map((row, i) => row.map((each, j) => each - strength * direction[i] * direction[j]));
    return direction;
  });
}

/** Multiplied again and again, any start turns towards the strongest direction. */
function strongest(spread) {
  // A start with no symmetry, so that it is not at right angles to what is looked for.
  let direction = spread.map((_, i) => 1 / (i + 1));
  let strength = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const [next] = matmul([direction], spread);
    strength = Math.hypot(...next);
    direction = next.map((each) => each / strength);
  }
  const largest = direction.reduce((most, each) => (Math.abs(each) > Math.abs(most) ? each : most));
  return { direction: direction.map((each) => each * Math.sign(largest)), strength };
}
