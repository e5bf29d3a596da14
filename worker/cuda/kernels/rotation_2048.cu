// Blind rotation for throughput: N = 2048, one mask polynomial, one digit, 64-bit words. The
// accumulator keeps the upper 32 bits of each word.
//
// Two warps rotate one ciphertext, and hold transforms in registers. The 1024 complex values form a
// square of 32 by 32, of which a thread holds a column of 32. A transform is a tree of 32 leaves
// over the columns, a transposition through shared memory, and a tree over the rows. After the
// transposition a thread holds a column of one polynomial. The thread 16 further in the warp holds
// that column of the other polynomial. The product with the key thus takes one exchange between
// these two threads. A block rotates several ciphertexts, which read the key together.
#pragma once
#include "columns.h"
#include "upper_half.h"

namespace fast {

constexpr u32 SIZE_LOG2 = 11, SIZE = 1 << SIZE_LOG2, HALF = SIZE / 2;
// Side of the square, and distance between its rows in shared memory. With this distance, the
// threads of a warp access distinct banks.
constexpr u32 STAGES = 5, SIDE = 1 << STAGES, PITCH = SIDE + 1;
// Ciphertexts of a block, and threads for each ciphertext.
constexpr u32 LANES = 4, THREADS = 64;
// Values of a step's key: two rows, two columns.
constexpr u32 STEP_VALUES = 4 * HALF;
constexpr u32 FACTORS = factors_of(STAGES);

// Shared memory of a block.
struct Shared {
  double2 squares[LANES][2][SIDE * PITCH];
  u32 accumulators[LANES][2][SIZE];
  double2 forward[FACTORS * SIDE], inverse[FACTORS * SIDE];
};
static_assert(sizeof(Shared) == 217088, "what gpu/launches/rotations.rs says that a block shares");

// Place of a value in a step's key. The value belongs to a leaf and a column of the square. Its
// polynomial multiplies polynomial `row_polynomial`, and the product is added to
// `column_polynomial`. A thread first reads the factors of its own polynomial, then those of the
// other.
__device__ __forceinline__ u32 key_place(u32 leaf, u32 column, u32 row_polynomial, u32 column_polynomial) {
  u32 is_other = row_polynomial != column_polynomial;
  return leaf * 128 + is_other * 64 + (column >> 4) * 32 + (column & 15) + 16 * column_polynomial;
}

// The value of the thread whose number in the warp is that of this thread, exclusive-or 16.
__device__ __forceinline__ double2 of_other_polynomial(double2 value) {
  return make_double2(__shfl_xor_sync(~0u, value.x, 16), __shfl_xor_sync(~0u, value.y, 16));
}

__device__ void blind_rotate(const u32 *exponents, const u64 *const *tables, const u32 *table_of, const double2 *key,
                             const double2 *roots, u64 *glwes, u32 lanes, u32 steps, u32 base_log) {
  DYNAMIC_SHARED(Shared, shared);
  u32 thread = threadIdx.x % SIDE, warp = threadIdx.x / SIDE % 2, pair = threadIdx.x / THREADS;
  load_factors<STAGES>(shared->forward, shared->inverse, roots);
  __syncthreads();
  u32 lane = blockIdx.x * LANES + pair;
  if (lane >= lanes)
    return;
  exponents += u64(lane) * (steps + 1);
  u32 *accumulator = shared->accumulators[pair][warp];
  double2 *square = shared->squares[pair][warp];
  const u64 *table = tables[table_of[lane]];
  // The mask starts as zero.
  for (u32 j = thread; j < SIZE; j += SIDE)
    accumulator[j] = warp == 0 ? 0 : table_word(table, j, exponents[steps], SIZE);
  __syncwarp();
  // From the transposition on, a thread holds this column of this polynomial.
  u32 column = thread % 16 + 16 * warp, polynomial = thread / 16;
  double2 *of_column = shared->squares[pair][polynomial];
#pragma unroll 1
  for (u32 step = 0; step < steps; step++) {
    double2 x[SIDE];
    u32 from = thread + 2 * SIZE - exponents[step];
    unrolled<SIDE>([&](auto r) {
      constexpr u32 offset = SIDE * r.value;
      double low = digit_of_difference(accumulator, thread + offset, from + offset, SIZE, base_log);
      double high = digit_of_difference(accumulator, thread + offset + HALF, from + offset + HALF, SIZE, base_log);
      x[r.value] = make_double2(low, high);
    });
    tree<STAGES, 1, 1, 4>(x);
    unrolled<SIDE>([&](auto i) { square[reversed(i.value, STAGES) * PITCH + thread] = x[i.value]; });
    pair_barrier(pair, THREADS);
    unrolled<SIDE>([&](auto i) { x[i.value] = of_column[column * PITCH + i.value]; });
    tree_of_lane<STAGES, 1>(x, [&](u32 index) { return shared->forward[index * SIDE + column]; });
    const double2 *own = key + u64(step) * STEP_VALUES + warp * SIDE + thread;
    unrolled<SIDE>([&](auto i) {
      double2 value = x[i.value], other = of_other_polynomial(value);
      double2 a = own[i.value * 128], b = own[i.value * 128 + 64];
      double re = fma(-other.y, b.y, fma(other.x, b.x, fma(-value.y, a.y, value.x * a.x)));
      double im = fma(other.y, b.x, fma(other.x, b.y, fma(value.y, a.x, value.x * a.y)));
      x[i.value] = make_double2(re, im);
    });
    reverse<STAGES>(x);
    tree<STAGES, -1, 0, 1>(x);
    // Both warps read their columns before they overwrite the squares.
    pair_barrier(pair, THREADS);
    unrolled<SIDE>([&](auto i) { of_column[reversed(i.value, STAGES) * PITCH + column] = x[i.value]; });
    pair_barrier(pair, THREADS);
    unrolled<SIDE>([&](auto i) { x[i.value] = square[thread * PITCH + i.value]; });
    tree_of_lane<STAGES, -1>(x, [&](u32 index) { return shared->inverse[index * SIDE + thread]; });
    // Loaded again in each step, because no register is free to keep the factor.
    double2 untwist = conjugate(roots[thread]);
    untwist = make_double2(untwist.x * (1.0 / HALF), untwist.y * (1.0 / HALF));
    unrolled<SIDE>([&](auto i) {
      constexpr u32 r = reversed(i.value, STAGES);
      constexpr Root w = root_of_unity(-int(r), 4 * SIDE);
      double2 value = times(x[i.value], times(untwist, make_double2(w.re, w.im)));
      add_to(accumulator[thread + SIDE * r], accumulator[thread + SIDE * r + HALF], value);
    });
    __syncwarp();
  }
  u64 *glwe = glwes + (u64(lane) * 2 + warp) * SIZE;
  for (u32 j = thread; j < SIZE; j += SIDE)
    glwe[j] = u64(accumulator[j]) << 32;
}

} // namespace fast

extern "C" __global__ void __launch_bounds__(fast::LANES *fast::THREADS, 1)
    blind_rotate_2048_64(const u32 *exponents, const u64 *const *tables, const u32 *table_of, const double2 *key,
                         const double2 *roots, u64 *glwes, u32 lanes, u32 steps, u32 base_log) {
  fast::blind_rotate(exponents, tables, table_of, key, roots, glwes, lanes, steps, base_log);
}
