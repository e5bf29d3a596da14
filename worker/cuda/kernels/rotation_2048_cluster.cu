// Blind rotation for latency, with two to four secret bits a step: N = 2048, one mask polynomial,
// one digit, 64-bit words, on GPUs with clusters. The key has the layout of rotation.cu, and the
// accumulator keeps whole words.
//
// A step of four bits reads a mebibyte of the key. That is far more than one multiprocessor
// receives in the time of a step's transforms. So eight blocks rotate one ciphertext, and each
// block reads an eighth of the key. A thread holds one value, and a warp a column of a polynomial's
// square of 32 by 32. A tree exchanges values between the threads of a warp. A transposition stores
// each value in the block that has its row. Between the forward and the inverse transposition, a
// block holds four rows of both polynomials. The block multiplies these rows by its sum of the
// key's ciphertexts, which it computes during the forward transposition. A coefficient never leaves
// its thread: only the key is rotated, and the product replaces the accumulator.
#pragma once
#include "rotation.cu"
#include "unrolled.h"

#ifdef HAS_CLUSTERS
namespace latency {

constexpr u32 SIZE_LOG2 = 11, SIZE = 1 << SIZE_LOG2, HALF = SIZE / 2;
constexpr u32 STAGES = 5, SIDE = 1 << STAGES;
// Blocks of a cluster. A block has LINES columns, or rows, of each polynomial, and a warp for each
// of them.
constexpr u32 BLOCKS = 8, LINES = SIDE / BLOCKS, WARPS = 2 * LINES, THREADS = WARPS * SIDE;
constexpr u32 SUBSETS_MAX = 1 << GROUPING_MAX;

// Rotation of the key's ciphertext of a subset.
struct Turn {
  u32 exponent;
  // The part of the rotation's root that depends on the row.
  double2 of_row;
};

// Shared memory of a block.
struct Shared {
  // A thread's values of a step's key: the factor of its own polynomial, and the factor of the
  // other.
  double2 key[SUBSETS_MAX][2][THREADS];
  // Buffers into which other blocks store. Blocks write to one while they read the other.
  double2 received[2][WARPS][SIDE];
  double2 products[WARPS][SIDE];
  Turn turns[WARPS][SUBSETS_MAX];
  // exp(2 pi i m / 32), at the place of the reversed bits of m, so that adjacent threads read from
  // all banks.
  double2 circle[SIDE];
};
static_assert(sizeof(Shared) == 147968, "what gpu/launches/rotations.rs says that a block shares");

// Factors of a thread's stages, each with the thread's sign. The forward transform works on
// columns, then rows. The inverse works on rows, then columns. `untwist` multiplies the
// coefficients at the end.
struct Factors {
  double2 columns[STAGES], rows[STAGES], rows_back[STAGES], columns_back[STAGES], untwist;
};

__device__ __forceinline__ Factors load_factors(const double2 *roots, u32 line, u32 lane) {
  Factors factors;
  unrolled<STAGES>([&](auto stage) {
    constexpr u32 t = stage.value, half = SIDE / 2 >> t, half_back = 1 << t;
    // Nodes are in the order of their reversed bits. Roots are in units of exp(i pi / N).
    u32 node = 2 * SIZE * (__brev(lane) >> 27 & ((1u << t) - 1)), minus = lane & half ? SIZE : 0;
    u32 of_row = 4 * SIDE * (__brev(line) >> 27) + SIDE;
    factors.columns[t] = roots[((HALF + node) >> (t + 1)) + minus];
    factors.rows[t] = roots[((of_row + node) >> (t + 1)) + minus];
    u32 within = lane & (half_back - 1), minus_back = lane & half_back ? SIZE : 0;
    factors.rows_back[t] = conjugate(roots[within * (SIZE / half_back) + minus_back]);
    factors.columns_back[t] = conjugate(roots[(within * SIDE + line) * (SIZE / (SIDE * half_back)) + minus_back]);
  });
  double2 root = roots[lane * SIDE + line];
  factors.untwist = make_double2(root.x * (1.0 / HALF), -root.y * (1.0 / HALF));
  return factors;
}

// Computes one stage. Of two threads whose numbers differ in the bit `half`, the lower holds a and
// the upper b. The lower gets a + w b and the upper a - w b. The factor includes this sign.
__device__ __forceinline__ double2 lanes_butterfly(double2 x, u32 half, double2 w) {
  double2 other = make_double2(__shfl_xor_sync(~0u, x.x, half), __shfl_xor_sync(~0u, x.y, half));
  bool is_upper = threadIdx.x & half;
  return plus_product(is_upper ? other : x, w, is_upper ? x : other);
}

// The line that a warp works on: this column, or row, of this polynomial.
struct Line {
  u32 polynomial, line, warp, lane;

  // Transposes: values of columns become values of rows, or the reverse.
  __device__ __forceinline__ void send(double2 (*received)[SIDE], double2 value) const {
    store_in_block(lane / LINES, &received[polynomial * LINES + lane % LINES][line], value);
  }
};

// Computes the rotations of the key's ciphertexts in a step, for a warp's row.
__device__ __forceinline__ void find_turns(Line at, Turn *turns, const u64 *group, u32 grouping, const double2 *roots) {
  if (at.lane < 1u << grouping) {
    u64 sum = 0;
    for (u32 bit = 0; bit < grouping; bit++)
      if (at.lane >> bit & 1)
        sum += group[grouping - 1 - bit];
    u32 exponent = u32(round_to_modulus(sum, SIZE_LOG2 + 1)), odd = 4 * (__brev(at.line) >> 27) + 1;
    turns[at.lane] = Turn{exponent, roots[odd * exponent & (2 * SIZE - 1)]};
  }
  __syncwarp();
}

// The step's ciphertext at a thread's place: the factor of its own polynomial, and the factor of
// the other.
struct Bundle {
  double2 own, other;
};

__device__ __forceinline__ Bundle sum_up(Line at, const Shared *shared, u32 grouping) {
  Bundle sum{};
  u32 reversed_lane = __brev(at.lane) >> 27;
#pragma unroll 4
  for (u32 subset = 0; subset < 1u << grouping; subset++) {
    Turn turn = shared->turns[at.warp][subset];
    double2 root = times(turn.of_row, shared->circle[__brev(reversed_lane * turn.exponent) >> 27]);
    sum.own = plus_product(sum.own, shared->key[subset][0][threadIdx.x], root);
    sum.other = plus_product(sum.other, shared->key[subset][1][threadIdx.x], root);
  }
  return sum;
}

// Starts to copy a thread's values of a step's key, which orders its polynomials by subset, row and
// column.
__device__ __forceinline__ void copy_key(Line at, Shared *shared, const double2 *key, u32 grouping) {
  u32 place = at.line * SIDE + at.lane;
  for (u32 subset = 0; subset < 1u << grouping; subset++)
    for (u32 other = 0; other < 2; other++) {
      u32 row = at.polynomial ^ other;
      const double2 *value = &key[((subset * 2 + row) * 2 + at.polynomial) * HALF + place];
      copy_meanwhile(&shared->key[subset][other][threadIdx.x], value);
    }
}

__device__ void blind_rotate(const u64 *inputs, const u64 *const *tables, const u32 *table_of, const double2 *key,
                             const double2 *roots, u64 *glwes, u32 steps, u32 grouping, u32 base_log) {
  DYNAMIC_SHARED(Shared, shared);
  u32 block = blockIdx.x % BLOCKS, ciphertext = blockIdx.x / BLOCKS, warp = threadIdx.x / SIDE;
  Line at{warp / LINES, block * LINES + warp % LINES, warp, threadIdx.x % SIDE};
  Gadget gadget{base_log, 1};
  u32 step_values = (1u << grouping) * 4 * HALF, dropped = 64 - base_log;
  copy_key(at, shared, key, grouping);
  if (warp == 0)
    shared->circle[__brev(at.lane) >> 27] = roots[at.lane * (2 * SIZE / SIDE)];
  Factors factors = load_factors(roots, at.line, at.lane);
  // The thread's two coefficients: the mask is zero, the body X^-exponent times the table.
  const u64 *input = inputs + u64(ciphertext) * (u64(steps) * grouping + 1);
  u32 body = u32(round_to_modulus(input[u64(steps) * grouping], SIZE_LOG2 + 1)), j = at.lane * SIDE + at.line;
  const u64 *table = tables[table_of[ciphertext]];
  u64 low = 0, high = 0;
  if (at.polynomial == 1) {
    low = rotated(table, j, (2 * SIZE - body) & (2 * SIZE - 1), SIZE);
    high = rotated(table, j + HALF, (2 * SIZE - body) & (2 * SIZE - 1), SIZE);
  }
  // A block must not store into another block that has not started.
  arrive_at_cluster();
  wait_for_cluster();
#pragma unroll 1
  for (u32 step = 0; step < steps; step++, input += grouping) {
    double2 x = make_double2(digit(gadget, halves_to_even(low, dropped), 0),
                             digit(gadget, halves_to_even(high, dropped), 0));
    unrolled<STAGES>([&](auto t) { x = lanes_butterfly(x, SIDE / 2 >> t.value, factors.columns[t.value]); });
    at.send(shared->received[0], x);
    arrive_at_cluster();
    find_turns(at, shared->turns[warp], input, grouping, roots);
    wait_for_copies();
    Bundle bundle = sum_up(at, shared, grouping);
    key += step_values;
    if (step + 1 < steps)
      copy_key(at, shared, key, grouping);
    wait_for_cluster();
    x = shared->received[0][warp][at.lane];
    unrolled<STAGES>([&](auto t) { x = lanes_butterfly(x, SIDE / 2 >> t.value, factors.rows[t.value]); });
    // The other polynomial's warp of this row holds the other half of the product.
    shared->products[warp][at.lane] = x;
    __syncthreads();
    x = plus_product(times(x, bundle.own), shared->products[(warp + LINES) % WARPS][at.lane], bundle.other);
    unrolled<STAGES>([&](auto t) { x = lanes_butterfly(x, 1 << t.value, factors.rows_back[t.value]); });
    at.send(shared->received[1], x);
    arrive_at_cluster();
    wait_for_cluster();
    x = shared->received[1][warp][at.lane];
    unrolled<STAGES>([&](auto t) { x = lanes_butterfly(x, 1 << t.value, factors.columns_back[t.value]); });
    x = times(x, factors.untwist);
    low = round_to_torus<u64>(x.x);
    high = round_to_torus<u64>(x.y);
  }
  u64 *polynomial = glwes + (u64(ciphertext) * 2 + at.polynomial) * SIZE;
  polynomial[j] = low;
  polynomial[j + HALF] = high;
}

} // namespace latency

extern "C" __global__ void CLUSTER(latency::BLOCKS) __launch_bounds__(latency::THREADS, 1)
    blind_rotate_groups_2048_64(const u64 *inputs, const u64 *const *tables, const u32 *table_of, const double2 *key,
                                const double2 *roots, u64 *glwes, u32 steps, u32 grouping, u32 base_log) {
  latency::blind_rotate(inputs, tables, table_of, key, roots, glwes, steps, grouping, base_log);
}
#endif
