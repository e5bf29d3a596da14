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

// Rotations of a step's ciphertexts of the key, for a warp's row.
struct Turns {
  // The part of a rotation's root that depends on the row.
  double2 of_row[SUBSETS_MAX];
  u32 exponents[SUBSETS_MAX];
};

// Shared memory of a block.
struct Shared {
  // A thread's values of a step's key: the factor of its own polynomial, and the factor of the
  // other.
  double2 key[SUBSETS_MAX][2][THREADS];
  // Buffers into which all blocks store. Blocks write to one while they read the other. A row is
  // padded, so that the stores of a warp access distinct banks.
  double2 received[2][WARPS][SIDE + 1];
  // Values that the two warps of a row exchange, in the current step and in the one before.
  double2 products[2][WARPS][SIDE];
  // Rotations of the current step and of the next one.
  Turns turns[2][WARPS];
  // exp(2 pi i m / 32), at the place of the reversed bits of m, so that adjacent threads read from
  // all banks.
  double2 circle[SIDE];
  // Bytes that were stored into each buffer.
  Arrivals arrivals[2];
};
// Bytes of a transposition that a block receives.
constexpr u32 ROUND_BYTES = WARPS * SIDE * sizeof(double2);
static_assert(sizeof(Shared) == 153360, "what gpu/launches/rotations.rs says that a block shares");

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
  __device__ __forceinline__ void send(Shared *shared, u32 buffer, double2 value) const {
    double2 *place = &shared->received[buffer][polynomial * LINES + lane % LINES][line];
    store_in_block(lane / LINES, place, value, &shared->arrivals[buffer]);
  }

  // The value that the thread receives in a step, after all values of the transposition have
  // arrived.
  __device__ __forceinline__ double2 receive(Shared *shared, u32 buffer, u32 step) const {
    wait_for_arrivals(&shared->arrivals[buffer], step & 1);
    if (threadIdx.x == 0)
      expect_arrivals(&shared->arrivals[buffer], ROUND_BYTES);
    return shared->received[buffer][warp][lane];
  }
};

// The words of a group, or zeros, that a thread adds up for its subset. The highest bit of a subset
// stands for the first word.
template <u32 GROUPING> struct Addends {
  u64 words[GROUPING];

  __device__ __forceinline__ Addends(const u64 *group, u32 subset) {
    unrolled<GROUPING>([&](auto bit) {
      words[bit.value] = subset >> bit.value & 1 ? group[GROUPING - 1 - bit.value] : 0;
    });
  }

  // Fills in the thread's subset, with a group of copies of its own.
  __device__ __forceinline__ void find_turn(Line at, Turns *turns, u32 subset, const double2 *roots) const {
    u64 sum = 0;
    unrolled<GROUPING>([&](auto bit) { sum += words[bit.value]; });
    u32 exponent = u32(round_to_modulus(sum, SIZE_LOG2 + 1)), odd = 4 * (__brev(at.line) >> 27) + 1;
    if (at.lane < 1 << GROUPING) {
      turns->exponents[subset] = exponent;
      copy_meanwhile(&turns->of_row[subset], &roots[odd * exponent & (2 * SIZE - 1)]);
    }
    end_copy_group();
  }
};

// A step's ciphertext at a thread's place: the factor of its own polynomial, and the factor of the
// other.
struct Bundle {
  double2 own, other;
};

// One half of a step's key in shared memory: the first or the last subsets. The first half is read
// while the previous step's second transposition is under way, the last half during the step's
// first one. A half that was read is at once replaced by that of the next step.
template <u32 GROUPING, u32 HALF_OF_KEY> struct KeyHalf {
  static constexpr u32 SUBSETS = 1 << (GROUPING - 1), FIRST = HALF_OF_KEY * SUBSETS;

  // Adds the half's ciphertexts to the bundle, when all copies but the last `PENDING` groups have
  // ended.
  template <u32 PENDING>
  static __device__ __forceinline__ void sum_up(Line at, const Shared *shared, u32 step, Bundle &sum) {
    wait_for_copies<PENDING>();
    __syncwarp();
    const Turns *turns = &shared->turns[step & 1][at.warp];
    u32 reversed_lane = __brev(at.lane) >> 27;
    unrolled<SUBSETS>([&](auto i) {
      constexpr u32 subset = FIRST + i.value;
      double2 of_lane = shared->circle[__brev(reversed_lane * turns->exponents[subset]) >> 27];
      double2 root = times(turns->of_row[subset], of_lane);
      sum.own = plus_product(sum.own, shared->key[subset][0][threadIdx.x], root);
      sum.other = plus_product(sum.other, shared->key[subset][1][threadIdx.x], root);
    });
  }

  // Starts to copy the thread's values of a step, if there is such a step. A key orders its
  // polynomials by step, subset, row and column.
  static __device__ __forceinline__ void copy(Line at, Shared *shared, const double2 *key, u32 step, u32 steps) {
    if (step < steps) {
      key += (u64(step) * (2 * SUBSETS) + FIRST) * 4 * HALF + at.polynomial * HALF + at.line * SIDE + at.lane;
      const double2 *own = key + at.polynomial * 2 * HALF, *other = key + (at.polynomial ^ 1) * 2 * HALF;
      unrolled<SUBSETS>([&](auto i) {
        copy_meanwhile<i.value * 4 * HALF>(&shared->key[FIRST + i.value][0][threadIdx.x], own);
        copy_meanwhile<i.value * 4 * HALF>(&shared->key[FIRST + i.value][1][threadIdx.x], other);
      });
    }
    end_copy_group();
  }
};

template <u32 GROUPING>
__device__ __forceinline__ void blind_rotate(const u64 *inputs, const u64 *const *tables, const u32 *table_of,
                                             const double2 *key, const double2 *roots, u64 *glwes, u32 steps,
                                             u32 base_log) {
  DYNAMIC_SHARED(Shared, shared);
  u32 block = blockIdx.x % BLOCKS, ciphertext = blockIdx.x / BLOCKS, warp = threadIdx.x / SIDE;
  Line at{warp / LINES, block * LINES + warp % LINES, warp, threadIdx.x % SIDE};
  Gadget gadget{base_log, 1};
  u32 dropped = 64 - base_log;
  using First = KeyHalf<GROUPING, 0>;
  using Last = KeyHalf<GROUPING, 1>;
  First::copy(at, shared, key, 0, steps);
  Last::copy(at, shared, key, 0, steps);
  if (warp == 0)
    shared->circle[__brev(at.lane) >> 27] = roots[at.lane * (2 * SIZE / SIDE)];
  if (threadIdx.x == 0)
    unrolled<2>([&](auto buffer) {
      prepare_arrivals(&shared->arrivals[buffer.value]);
      expect_arrivals(&shared->arrivals[buffer.value], ROUND_BYTES);
    });
  Factors factors = load_factors(roots, at.line, at.lane);
  const u64 *input = inputs + u64(ciphertext) * (u64(steps) * GROUPING + 1);
  u32 subset = at.lane % (1 << GROUPING);
  auto addends_of = [&](u32 step) { return Addends<GROUPING>(input + (step < steps ? step : 0) * GROUPING, subset); };
  addends_of(0).find_turn(at, &shared->turns[0][warp], subset, roots);
  Addends<GROUPING> next = addends_of(1);
  // The thread's two coefficients: the mask is zero, the body X^-exponent times the table.
  u32 body = u32(round_to_modulus(input[u64(steps) * GROUPING], SIZE_LOG2 + 1)), j = at.lane * SIDE + at.line;
  const u64 *table = tables[table_of[ciphertext]];
  u64 low = 0, high = 0;
  if (at.polynomial == 1) {
    low = rotated(table, j, (2 * SIZE - body) & (2 * SIZE - 1), SIZE);
    high = rotated(table, j + HALF, (2 * SIZE - body) & (2 * SIZE - 1), SIZE);
  }
  __syncthreads();
  Bundle bundle{};
  First::template sum_up<0>(at, shared, 0, bundle);
  First::copy(at, shared, key, 1, steps);
  // A block must not store into another block that has not started.
  arrive_at_cluster();
  wait_for_cluster();
#pragma unroll 1
  for (u32 step = 0; step < steps; step++) {
    next.find_turn(at, &shared->turns[(step + 1) & 1][warp], subset, roots);
    next = addends_of(step + 2);
    double2 x = make_double2(digit(gadget, halves_to_even(low, dropped), 0),
                             digit(gadget, halves_to_even(high, dropped), 0));
    unrolled<STAGES>([&](auto t) { x = lanes_butterfly(x, SIDE / 2 >> t.value, factors.columns[t.value]); });
    at.send(shared, 0, x);
    // Two groups may be pending: the first half and the rotations of the next step.
    Last::template sum_up<2>(at, shared, step, bundle);
    Last::copy(at, shared, key, step + 1, steps);
    x = at.receive(shared, 0, step);
    unrolled<STAGES>([&](auto t) { x = lanes_butterfly(x, SIDE / 2 >> t.value, factors.rows[t.value]); });
    // The other polynomial's warp of this row holds the other half of the product.
    auto *products = shared->products[step & 1];
    products[warp][at.lane] = x;
    pair_barrier(warp % LINES, 2 * SIDE);
    x = plus_product(times(x, bundle.own), products[(warp + LINES) % WARPS][at.lane], bundle.other);
    unrolled<STAGES>([&](auto t) { x = lanes_butterfly(x, 1 << t.value, factors.rows_back[t.value]); });
    at.send(shared, 1, x);
    // After the last step, this sums up old values, and the sum is not used.
    bundle = Bundle{};
    // One group may be pending: the last half of the next step.
    First::template sum_up<1>(at, shared, step + 1, bundle);
    First::copy(at, shared, key, step + 2, steps);
    x = at.receive(shared, 1, step);
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
  switch (grouping) {
  case 2:
    return latency::blind_rotate<2>(inputs, tables, table_of, key, roots, glwes, steps, base_log);
  case 3:
    return latency::blind_rotate<3>(inputs, tables, table_of, key, roots, glwes, steps, base_log);
  case 4:
    return latency::blind_rotate<4>(inputs, tables, table_of, key, roots, glwes, steps, base_log);
  }
}
#endif
