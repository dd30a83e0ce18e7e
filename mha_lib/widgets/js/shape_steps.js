/** The steps of multi-head attention as code and shapes, and the rules that sizes must keep. */

export const SIZES = ["B", "N", "d_model", "h"];
export const LARGEST = 1_000_000;

export const PRESETS = {
  different: { B: 3, N: 5, d_model: 8, h: 2 },
  small: { B: 2, N: 4, d_model: 8, h: 2 },
  bert: { B: 1, N: 512, d_model: 768, h: 12 },
  gpt2: { B: 1, N: 1024, d_model: 768, h: 12 },
  gpt3: { B: 1, N: 2048, d_model: 12288, h: 96 },
};

/**
 * A tensor on its way: how it came `from` the one before, its name, its axes, its drawing.
 * @typedef {{from: string, name: string, axes: string[], look: string}} Stage
 * @returns {Stage}
 */
const stage = (from, name, axes, look) => ({ from, name, axes: axes.split(" "), look });
const x = stage("", "x", "B N d_model", "plain");
const heads = (from, name) => stage(from, name, "B h N d_k", "heads");
const pairs = (from, name) => stage(from, name, "B h N N", "pairs");
const columns = (from, name) => stage(from, name, "B N d_model", "columns");
const tokens = (from, name) => stage(from, name, "B N h d_k", "tokens");
const eachOf = (line) => ["q", "k", "v"].map(line);

/**
 * Each step: its code, and the way from tensor to tensor. The lines are those of the chapter's
 * MultiHeadAttention, save that there split_heads takes in what each projection makes and does
 * the split, and the last line returns the output.
 */
export const STEPS = [
  { id: "input", code: ["x  # (B, N, d_model)"], way: [x] },
  {
    id: "project",
    code: eachOf((name) => `${name} = self.${name}_proj(x)  # (B, N, d_model)`),
    way: [x, columns("→ q_proj", "q")],
  },
  {
    id: "split",
    code: eachOf((name) => [
      `${name} = ${name}.view(B, N, self.h, self.d_k)  # (B, N, h, d_k)`,
      `${name} = ${name}.transpose(1, 2)  # (B, h, N, d_k)`,
    ]).flat(),
    way: [columns("", "q"), tokens("→ .view(B, N, h, d_k)", ""), heads("→ .transpose(1, 2)", "q")],
  },
  {
    id: "score",
    code: [
      "scores = q @ k.transpose(-2, -1)  # (B, h, N, N)",
      "scores = scores / math.sqrt(self.d_k)  # (B, h, N, N)",
    ],
    way: [
      heads("", "q"),
      stage("@", "k.transpose(-2, -1)", "B h d_k N", "turned"),
      pairs("→ / math.sqrt(d_k)", "scores"),
    ],
  },
  {
    id: "softmax",
    code: ["weights = scores.softmax(dim=-1)  # (B, h, N, N)"],
    way: [pairs("", "scores"), pairs("→ .softmax(dim=-1)", "weights")],
  },
  {
    id: "combine",
    code: ["head_out = weights @ v  # (B, h, N, d_k)"],
    way: [pairs("", "weights"), heads("@", "v"), heads("→", "head_out")],
  },
  {
    id: "merge",
    code: [
      "concat = head_out.transpose(1, 2)  # (B, N, h, d_k)",
      "concat = concat.reshape(B, N, d_model)  # (B, N, d_model)",
    ],
    way: [
      heads("", "head_out"),
      tokens("→ .transpose(1, 2)", ""),
      columns("→ .reshape(B, N, d_model)", "concat"),
    ],
  },
  {
    id: "output",
    code: ["output = self.out_proj(concat)  # (B, N, d_model)"],
    way: [columns("", "concat"), stage("→ out_proj", "output", "B N d_model", "plain")],
  },
];

/**
 * What mha_lib answers in Jupyter: shapes and parameters, or which sizes cannot be.
 * @param {Record<string, any>} state
 */
export function compute({ B, N, d_model, h }) {
  const sizes = { B, N, d_model, h };
  const invalid = SIZES.filter((name) => !isSize(sizes[name]));
  if (invalid.length) return { invalid };
  if (Math.max(B * h * N * N, B * N * d_model) > Number.MAX_SAFE_INTEGER) return { too_many: true };
  if (d_model % h) return { error: notDivisible(d_model, h) };
  const d_k = d_model / h;
  const shapes = {};
  for (const name of ["x", "projected", "concat", "output"]) shapes[name] = [B, N, d_model];
  for (const name of ["q", "k", "v", "head_out"]) shapes[name] = [B, h, N, d_k];
  for (const name of ["scores", "weights"]) shapes[name] = [B, h, N, N];
  const parameters = {};
  for (const name of ["W_Q", "W_K", "W_V", "W_O"]) {
    parameters[name] = { weights: d_model * d_model, biases: d_model };
  }
  return { sizes: { ...sizes, d_k }, shapes, parameters };
}

function isSize(value) {
  return Number.isInteger(value) && value >= 1 && value <= LARGEST;
}

/** mha_lib's own message, letter for letter. */
function notDivisible(d_model, h) {
  const divisors = [];
  for (let each = 1; each <= d_model; each += 1) if (d_model % each === 0) divisors.push(each);
  const nearest = divisors
    .sort((one, other) => Math.abs(one - h) - Math.abs(other - h) || one - other)
    .slice(0, 4)
    .sort((one, other) => one - other);
  const last = nearest.pop();
  const choice = nearest.length ? `${nearest.join(", ")} or ${last} heads` : `${last} head`;
  return `embed_dim=${d_model} is not divisible by num_heads=${h}; use ${choice}, or pass head_dim`;
}

/** A shape as Python writes it: (2, 2, 4, 4). @param {string[]} axes @param {Record<string, number>} sizes */
export function tuple(axes, sizes) {
  return `(${axes.map((axis) => sizes[axis]).join(", ")})`;
}
