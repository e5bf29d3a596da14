// Variant of rotation_2048.cu for few ciphertexts, with the key unchanged. Four warps rotate one
// ciphertext, which has a block to itself. Ciphertexts thus spread over the multiprocessors, and a
// thread has half as much work.
//
// Two threads share a column of 32 values: one holds the even values, the other the odd ones. Each
// computes four stages of a tree alone. Then each gives half of its values to the other thread, and
// computes the last stage for half of the leaves.
#pragma once
#include "rotation_2048.cu"

namespace fast {

// Threads of a block, and values of each thread.
constexpr u32 FEW_THREADS = 128, SHARE = SIDE / 2;

// Shared memory of a block.
struct SharedByFew {
  double2 squares[2][SIDE * PITCH];
  u32 accumulators[2][SIZE];
  double2 forward[FACTORS * SIDE], inverse[FACTORS * SIDE];
};
static_assert(sizeof(SharedByFew) == 66560, "what gpu/launches/rotations.rs says that a block shares");

// The value of the thread whose number in the warp is that of this thread, exclusive-or `lanes`.
__device__ __forceinline__ double2 of_lane(double2 value, u32 lanes) {
  return make_double2(__shfl_xor_sync(~0u, value.x, lanes), __shfl_xor_sync(~0u, value.y, lanes));
}

// Computes the last stage of a tree of 32 leaves. The thread whose `half` is 0 holds values of the
// even coefficients, and thread ^ `partner` those of the odd ones. The thread ends with the 16
// leaves from leaf 16 `half` on. `factor(i)` gives every second factor of the stage: the factors
// between are a quarter turn further.
template <int SIGN, class Factor>
__device__ __forceinline__ void last_stage(double2 *x, u32 half, u32 partner, Factor factor) {
  double2 y[SHARE];
  unrolled<SHARE / 4>([&](auto i) {
    auto pair = [&](auto node, double re, double im) {
      double2 own = half ? x[node.value + SHARE / 2] : x[node.value];
      double2 others = of_lane(half ? x[node.value] : x[node.value + SHARE / 2], partner);
      double2 &even = y[2 * node.value], &odd = y[2 * node.value + 1];
      even = half ? others : own;
      odd = half ? own : others;
      butterfly(even, odd, re, im);
    };
    double2 w = factor(i);
    pair(Index<2 * i.value>{}, w.x, w.y);
    pair(Index<2 * i.value + 1>{}, -SIGN * w.y, SIGN * w.x);
  });
  unrolled<SHARE>([&](auto i) { x[i.value] = y[i.value]; });
}

// A tree of 32 leaves at the points x for which x^32 is exp(SIGN 2 pi i NUMERATOR / DENOMINATOR).
// The two threads share values and leaves as in last_stage.
template <int SIGN, int NUMERATOR, int DENOMINATOR>
__device__ __forceinline__ void shared_tree(double2 *x, u32 half, u32 partner) {
  tree<STAGES - 1, SIGN, NUMERATOR, DENOMINATOR>(x);
  last_stage<SIGN>(x, half, partner, [&](auto i) {
    // Factor of the leaves from 4 i on, or of the leaves 16 further.
    constexpr int node = reversed(2 * i.value, STAGES - 1), turn = DENOMINATOR * SIDE;
    constexpr Root low = root_of_unity(SIGN * (NUMERATOR + node * DENOMINATOR), turn);
    constexpr Root high = root_of_unity(SIGN * (NUMERATOR + (node + 1) * DENOMINATOR), turn);
    return make_double2(half ? high.re : low.re, half ? high.im : low.im);
  });
}

// The tree where x^32 is the column's own root.
template <int SIGN>
__device__ __forceinline__ void shared_tree_of_column(double2 *x, u32 half, u32 partner, const double2 *factors,
                                                      u32 column) {
  tree_of_lane<STAGES - 1, SIGN>(x, [&](u32 index) { return factors[index * SIDE + column]; });
  last_stage<SIGN>(x, half, partner, [&](auto i) {
    constexpr u32 node = reversed(2 * i.value, STAGES - 1);
    return factors[(FACTORS / 2 + node + half) * SIDE + column];
  });
}

__device__ void blind_rotate_few(const u32 *exponents, const u64 *const *tables, const u32 *table_of,
                                 const double2 *key, const double2 *roots, u64 *glwes, u32 steps, u32 base_log) {
  DYNAMIC_SHARED(SharedByFew, shared);
  u32 thread = threadIdx.x % SIDE, warp = threadIdx.x / SIDE, lane = blockIdx.x;
  load_factors<STAGES>(shared->forward, shared->inverse, roots);
  exponents += u64(lane) * (steps + 1);
  // Before a transposition, two warps hold a polynomial, and a thread holds a share of this column.
  u32 own = warp / 2, half = thread / 16, column = thread % 16 + 16 * (warp % 2);
  u32 *accumulator = shared->accumulators[own];
  double2 *square = shared->squares[own];
  // After the transposition, a thread holds a share of this column of that polynomial. Thread ^ 16
  // holds the corresponding share of the other polynomial.
  u32 polynomial = thread / 16, later_half = thread / 8 % 2, later_column = thread % 8 + 8 * warp;
  double2 *of_column = shared->squares[polynomial];
  const u64 *table = tables[table_of[lane]];
  // The mask starts as zero.
  for (u32 j = threadIdx.x % (2 * SIDE); j < SIZE; j += 2 * SIDE)
    accumulator[j] = own == 0 ? 0 : table_word(table, j, exponents[steps], SIZE);
  __syncthreads();
#pragma unroll 1
  for (u32 step = 0; step < steps; step++) {
    double2 x[SHARE];
    u32 first = column + SIDE * half, from = first + 2 * SIZE - exponents[step];
    unrolled<SHARE>([&](auto r) {
      constexpr u32 offset = 2 * SIDE * r.value;
      double low = digit_of_difference(accumulator, first + offset, from + offset, SIZE, base_log);
      double high = digit_of_difference(accumulator, first + offset + HALF, from + offset + HALF, SIZE, base_log);
      x[r.value] = make_double2(low, high);
    });
    shared_tree<1, 1, 4>(x, half, 16);
    // The row of a leaf is the leaf's number with its bits reversed.
    unrolled<SHARE>([&](auto i) {
      square[(2 * reversed(i.value, STAGES - 1) + half) * PITCH + column] = x[i.value];
    });
    __syncthreads();
    unrolled<SHARE>([&](auto i) { x[i.value] = of_column[later_column * PITCH + 2 * i.value + later_half]; });
    shared_tree_of_column<1>(x, later_half, 8, shared->forward, later_column);
    const double2 *of_step = key + u64(step) * STEP_VALUES;
    of_step += key_place(SHARE * later_half, later_column, polynomial, polynomial);
    unrolled<SHARE>([&](auto i) {
      double2 value = x[i.value], other = of_lane(value, 16);
      double2 product = times(value, of_step[i.value * 128]);
      x[i.value] = plus_product(product, other, of_step[i.value * 128 + 64]);
    });
    reverse<STAGES - 1>(x);
    shared_tree<-1, 0, 1>(x, later_half, 8);
    // All warps read their columns before they overwrite the squares.
    __syncthreads();
    unrolled<SHARE>([&](auto i) {
      of_column[(2 * reversed(i.value, STAGES - 1) + later_half) * PITCH + later_column] = x[i.value];
    });
    __syncthreads();
    unrolled<SHARE>([&](auto i) { x[i.value] = square[column * PITCH + 2 * i.value + half]; });
    shared_tree_of_column<-1>(x, half, 16, shared->inverse, column);
    // Coefficient column + 32 (2 r + half), where r is the reversed bits of the leaf's place.
    double2 untwist = conjugate(roots[first]);
    untwist = make_double2(untwist.x * (1.0 / HALF), untwist.y * (1.0 / HALF));
    unrolled<SHARE>([&](auto i) {
      constexpr u32 r = reversed(i.value, STAGES - 1);
      constexpr Root w = root_of_unity(-int(r), 2 * SIDE);
      double2 value = times(x[i.value], times(untwist, make_double2(w.re, w.im)));
      add_to(accumulator[first + 2 * SIDE * r], accumulator[first + 2 * SIDE * r + HALF], value);
    });
    // The next rotation reads coefficients to which other threads have added.
    __syncthreads();
  }
  u64 *glwe = glwes + (u64(lane) * 2 + own) * SIZE;
  for (u32 j = threadIdx.x % (2 * SIDE); j < SIZE; j += 2 * SIDE)
    glwe[j] = u64(accumulator[j]) << 32;
}

} // namespace fast

extern "C" __global__ void __launch_bounds__(fast::FEW_THREADS, 2)
    blind_rotate_2048_few_64(const u32 *exponents, const u64 *const *tables, const u32 *table_of, const double2 *key,
                             const double2 *roots, u64 *glwes, u32 /* lanes: the grid */, u32 steps, u32 base_log) {
  fast::blind_rotate_few(exponents, tables, table_of, key, roots, glwes, steps, base_log);
}
