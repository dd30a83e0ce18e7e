/**
 * Multi-head attention on plain nested arrays, the same arithmetic as mha_lib's.
 *
 * A matrix is an array of rows. Shapes are written as in the course: N tokens (L queries,
 * S keys), h heads, d_k columns per head, d_model = h * d_k. In a mask, true means keep.
 *
 * @typedef {number[][]} Matrix
 * @typedef {object} Options
 * @property {boolean[][]} [mask] (L, S)
 * @property {Matrix} [bias] (L, S), added to the scores; -Infinity hides
 * @property {boolean} [causal] no query sees later keys; the last query stands beside the last key
 * @property {number|[?number, ?number]} [window] how many keys a query sees on each side of the one
 *   beside it; two are (left, right), and null is no limit
 * @property {number} [scale] what scores are multiplied by, 1 / sqrt(d_k) unless given
 * @property {number} [softcap] squeezes the scores between -softcap and softcap, before the bias
 */

/** Rows become columns: (n, m) -> (m, n). @param {Matrix} matrix @returns {Matrix} */
export function transpose(matrix) {
  return matrix[0].map((_, column) => matrix.map((row) => row[column]));
}

/** The sum of the products of two equally long lists. @param {number[]} a @param {number[]} b */
export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/**
 * The matrix product: (n, k) times (k, m) -> (n, m).
 * @param {Matrix} a @param {Matrix} b @returns {Matrix}
 */
export function matmul(a, b) {
  if (a[0].length !== b.length) {
    throw new RangeError(
      `cannot multiply (${a.length}, ${a[0].length}) by (${b.length}, ${b[0].length}): ` +
        `${a[0].length} columns meet ${b.length} rows`,
    );
  }
  const columns = transpose(b);
  return a.map((row) => columns.map((column) => dot(row, column)));
}

/**
 * Turn scores into weights that sum to 1. A score of -Infinity gets weight 0; where all
 * scores are -Infinity there is nothing to look at, and all weights are 0.
 * @param {number[]} scores @returns {number[]}
 */
export function softmax(scores) {
  const largest = Math.max(...scores);
  if (largest === -Infinity) return scores.map(() => 0);
  // Taking the largest away changes no weight and keeps exp() from overflowing.
  const powers = scores.map((score) => Math.exp(score - largest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

/**
 * Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V.
 * A key is used where mask, bias, causal and window all allow it.
 * @param {Matrix} query (L, d_k)
 * @param {Matrix} key (S, d_k)
 * @param {Matrix} value (S, d_v)
 * @param {Options} [options]
 * @returns {{scores: Matrix, masked_scores: Matrix, weights: Matrix, head_out: Matrix}}
 *   scores, masked_scores and weights: (L, S); head_out: (L, d_v)
 */
export function attention(query, key, value, options = {}) {
  const { mask, bias, causal = false, window, scale, softcap } = options;
  const factor = scale ?? 1 / Math.sqrt(query[0].length);
  const squeeze = (score) => (softcap ? softcap * Math.tanh(score / softcap) : score);
  const scores = matmul(query, transpose(key)).map((row) => row.map((dot) => squeeze(dot * factor))); // (L, S)

  const [left, right] = Array.isArray(window) ? window : [window, window];
  const before = left ?? Infinity;
  const after = causal ? 0 : (right ?? Infinity);
  const masked_scores = scores.map((row, i) => {
    const beside = i + key.length - query.length; // the key that stands beside query i
    return row.map((score, j) => {
      const kept = (!mask || mask[i][j]) && beside - before <= j && j <= beside + after;
      return kept ? score + (bias ? bias[i][j] : 0) : -Infinity;
    });
  }); // (L, S)
  const weights = masked_scores.map(softmax); // (L, S)
  return { scores, masked_scores, weights, head_out: matmul(weights, value) };
}

/** Columns from `start`, `count` of them. @param {Matrix} matrix @returns {Matrix} */
function columns(matrix, start, count) {
  return matrix.map((row) => row.slice(start, start + count));
}

/**
 * Multi-head self-attention, with every stage kept. The projections have no biases.
 * @param {Matrix} x (N, d_model)
 * @param {{W_Q: Matrix, W_K: Matrix, W_V: Matrix, W_O: Matrix}} projections
 *   each (d_model, d_model), multiplied from the right: Q = X W_Q. With W_K and W_V only
 *   h_kv * d_k wide, h / h_kv neighbouring heads share a key head
 * @param {number} numHeads h
 * @param {Options} [options] the same mask for every head
 * @returns {{
 *   q: Matrix[], k: Matrix[], v: Matrix[], scores: Matrix[], masked_scores: Matrix[],
 *   weights: Matrix[], head_out: Matrix[], concat: Matrix, output: Matrix,
 *   contributions: Matrix[]}}
 *   q, head_out: (h, N, d_k); k, v: (h_kv, N, d_k); scores, masked_scores, weights: (h, N, N);
 *   concat, output: (N, d_model); contributions: (h, N, d_model), which sum to output
 */
export function multiHeadAttention(x, { W_Q, W_K, W_V, W_O }, numHeads, options = {}) {
  const width = W_Q[0].length;
  if (width % numHeads !== 0) {
    throw new RangeError(`d_model=${width} is not divisible by h=${numHeads}`);
  }
  const headDim = width / numHeads;
  const shared = width / W_K[0].length; // query heads to a key head, h / h_kv
  if (!Number.isInteger(shared) || numHeads % shared !== 0) {
    throw new RangeError(`W_K is ${W_K[0].length} wide: h=${numHeads} heads cannot share it equally`);
  }
  const split = (matrix) => {
    const starts = matrix[0].map((_, column) => column).filter((column) => column % headDim === 0);
    return starts.map((start) => columns(matrix, start, headDim)); // (heads, N, d_k)
  };

  const [q, k, v] = [W_Q, W_K, W_V].map((projection) => split(matmul(x, projection)));
  const views = q.map((query, head) => {
    const group = Math.floor(head / shared);
    return attention(query, k[group], v[group], options);
  });
  const stage = (name) => views.map((view) => view[name]);

  const head_out = stage("head_out"); // (h, N, d_k)
  const concat = x.map((_, i) => head_out.flatMap((out) => out[i])); // (N, d_model)
  // A head owns d_k rows of W_O: what it adds to the output depends on no other head.
  const contributions = head_out.map((out, head) =>
    matmul(out, W_O.slice(head * headDim, (head + 1) * headDim)),
  ); // (h, N, d_model)
  return {
    q,
    k,
    v,
    scores: stage("scores"),
    masked_scores: stage("masked_scores"),
    weights: stage("weights"),
    head_out,
    concat,
    output: matmul(concat, W_O), // (N, d_model)
    contributions,
  };
}
