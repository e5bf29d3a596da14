// Blind rotation for throughput: N = 512, four mask polynomials, one digit, 64-bit words. The
// accumulator keeps the upper 32 bits of each word.
//
// The 256 complex values form a square of 16 by 16. Half a warp transforms one of a ciphertext's
// five polynomials in registers, as in rotation_2048.cu. Between the forward and the inverse
// transform comes the product with the key. At each place, the product needs all five polynomials
// and five times as many numbers of the key. So a thread computes one place for all ciphertexts of
// the block, and a block reads the key once. Meanwhile the values lie in the squares, each where
// the transform left it.
#pragma once
#include "columns.h"
#include "upper_half.h"

namespace boolean {

constexpr u32 SIZE_LOG2 = 9, SIZE = 1 << SIZE_LOG2, HALF = SIZE / 2;
constexpr u32 POLYNOMIALS = 5;
// Side of the square, and distance between its rows in shared memory. With this distance, eight
// consecutive threads access distinct banks.
constexpr u32 STAGES = 4, SIDE = 1 << STAGES, PITCH = SIDE + 1;
constexpr u32 FACTORS = factors_of(STAGES);
// Ciphertexts of a block, and their polynomials. There is a thread for each place of the product,
// so half a warp of the threads has no polynomial.
constexpr u32 LANES = 3, PARTS = LANES * POLYNOMIALS, THREADS = HALF;
static_assert(PARTS * SIDE <= THREADS);
// Distance between accumulators, chosen so that those of a warp's two polynomials lie in distinct
// banks.
constexpr u32 ACCUMULATOR_PITCH = SIZE + SIDE;

// Shared memory of a block. A multiprocessor of 227 KiB has room for two blocks.
struct Shared {
  double2 squares[PARTS][SIDE * PITCH];
  u32 accumulators[PARTS][ACCUMULATOR_PITCH];
  double2 forward[FACTORS * SIDE], inverse[FACTORS * SIDE];
  // Last factor of a column's first coefficient. The factor also scales the key's words to those of
  // the accumulator.
  double2 untwist[SIDE];
};
static_assert(sizeof(Shared) == 101312, "what gpu/launches/rotations.rs says that a block shares");

// The polynomial that half a warp works on, and a thread's column of it.
struct Polynomial {
  double2 *square;
  u32 *accumulator;
  u32 column;

  // A barrier of the half warp.
  __device__ __forceinline__ void sync() const { __syncwarp(0xffffu << (threadIdx.x & SIDE)); }
};

// Fills the square with the transform of the digits of X^exponent times the polynomial, minus the
// polynomial. Value k is in row k % 16, at the place of the reversed bits of k / 16.
__device__ __forceinline__ void transform(Polynomial at, const Shared *shared, u32 exponent, u32 base_log) {
  double2 x[SIDE];
  u32 from = at.column + 2 * SIZE - exponent;
  unrolled<SIDE>([&](auto r) {
    constexpr u32 offset = SIDE * r.value;
    double low = digit_of_difference(at.accumulator, at.column + offset, from + offset, SIZE, base_log);
    double high = digit_of_difference(at.accumulator, at.column + offset + HALF, from + offset + HALF, SIZE, base_log);
    x[r.value] = make_double2(low, high);
  });
  tree<STAGES, 1, 1, 4>(x);
  unrolled<SIDE>([&](auto i) { at.square[reversed(i.value, STAGES) * PITCH + at.column] = x[i.value]; });
  at.sync();
  double2 *row = at.square + at.column * PITCH;
  unrolled<SIDE>([&](auto i) { x[i.value] = row[i.value]; });
  tree_of_lane<STAGES, 1>(x, [&](u32 index) { return shared->forward[index * SIDE + at.column]; });
  unrolled<SIDE>([&](auto i) { row[i.value] = x[i.value]; });
}

// Multiplies the values at a thread's place by a step's key, which orders its polynomials by row
// and column.
__device__ __forceinline__ void multiply(Shared *shared, const double2 *key) {
  // Keys have the order of transform.h.
  u32 place = threadIdx.x, in_square = reversed(place / SIDE, STAGES) * PITCH + place % SIDE;
  double2 sums[PARTS];
  unrolled<POLYNOMIALS>([&](auto row) {
    double2 x[LANES];
    unrolled<LANES>([&](auto lane) {
      x[lane.value] = shared->squares[lane.value * POLYNOMIALS + row.value][in_square];
    });
    unrolled<POLYNOMIALS>([&](auto column) {
      double2 value = key[(row.value * POLYNOMIALS + column.value) * HALF + place];
      unrolled<LANES>([&](auto lane) {
        double2 &sum = sums[lane.value * POLYNOMIALS + column.value];
        sum = row.value == 0 ? times(x[lane.value], value) : plus_product(sum, x[lane.value], value);
      });
    });
  });
  unrolled<PARTS>([&](auto part) { shared->squares[part.value][in_square] = sums[part.value]; });
}

// Transforms the square back and adds the polynomial to the accumulator.
__device__ __forceinline__ void transform_back(Polynomial at, const Shared *shared) {
  double2 x[SIDE];
  unrolled<SIDE>([&](auto i) { x[reversed(i.value, STAGES)] = at.square[at.column * PITCH + i.value]; });
  tree<STAGES, -1, 0, 1>(x);
  // All threads of the half warp read their rows before they overwrite the square.
  at.sync();
  unrolled<SIDE>([&](auto i) { at.square[reversed(i.value, STAGES) * PITCH + at.column] = x[i.value]; });
  at.sync();
  unrolled<SIDE>([&](auto i) { x[i.value] = at.square[at.column * PITCH + i.value]; });
  tree_of_lane<STAGES, -1>(x, [&](u32 index) { return shared->inverse[index * SIDE + at.column]; });
  double2 untwist = shared->untwist[at.column];
  unrolled<SIDE>([&](auto i) {
    constexpr u32 r = reversed(i.value, STAGES);
    constexpr Root w = root_of_unity(-int(r), 4 * SIDE);
    double2 value = times(x[i.value], times(untwist, make_double2(w.re, w.im)));
    add_to(at.accumulator[at.column + SIDE * r], at.accumulator[at.column + SIDE * r + HALF], value);
  });
  at.sync();
}

__device__ void blind_rotate(const u32 *exponents, const u64 *const *tables, const u32 *table_of, const double2 *key,
                             const double2 *roots, u64 *glwes, u32 lanes, u32 steps, u32 base_log) {
  DYNAMIC_SHARED(Shared, shared);
  bool has_polynomial = threadIdx.x < PARTS * SIDE;
  u32 part = has_polynomial ? threadIdx.x / SIDE : 0, polynomial = part % POLYNOMIALS;
  Polynomial at{shared->squares[part], shared->accumulators[part], threadIdx.x % SIDE};
  u32 lane = blockIdx.x * LANES + part / POLYNOMIALS;
  // A block with more room than ciphertexts left rotates the last ciphertext several times.
  u32 from = lane < lanes ? lane : lanes - 1;
  exponents += u64(from) * (steps + 1);
  load_factors<STAGES>(shared->forward, shared->inverse, roots);
  if (threadIdx.x < SIDE) {
    const double scale = 1.0 / HALF / 4294967296.0;
    shared->untwist[threadIdx.x] = make_double2(roots[threadIdx.x].x * scale, -roots[threadIdx.x].y * scale);
  }
  if (has_polynomial) {
    const u64 *table = tables[table_of[from]];
    // The mask starts as zero.
    for (u32 j = at.column; j < SIZE; j += SIDE)
      at.accumulator[j] = polynomial < POLYNOMIALS - 1 ? 0 : table_word(table, j, exponents[steps], SIZE);
  }
  __syncthreads();
#pragma unroll 1
  for (u32 step = 0; step < steps; step++) {
    if (has_polynomial)
      transform(at, shared, exponents[step], base_log);
    __syncthreads();
    multiply(shared, key + u64(step) * POLYNOMIALS * POLYNOMIALS * HALF);
    __syncthreads();
    if (has_polynomial)
      transform_back(at, shared);
  }
  if (!has_polynomial || lane >= lanes)
    return;
  u64 *glwe = glwes + (u64(lane) * POLYNOMIALS + polynomial) * SIZE;
  for (u32 j = at.column; j < SIZE; j += SIDE)
    glwe[j] = u64(at.accumulator[j]) << 32;
}

} // namespace boolean

extern "C" __global__ void __launch_bounds__(boolean::THREADS, 2)
    blind_rotate_512_64(const u32 *exponents, const u64 *const *tables, const u32 *table_of, const double2 *key,
                        const double2 *roots, u64 *glwes, u32 lanes, u32 steps, u32 base_log) {
  boolean::blind_rotate(exponents, tables, table_of, key, roots, glwes, lanes, steps, base_log);
}
