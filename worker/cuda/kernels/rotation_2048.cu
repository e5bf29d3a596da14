// Blind rotation for throughput: N = 2048, one mask polynomial, one digit, 64-bit words of which the accumulator keeps
// the upper 32 bits.
//
// Two warps rotate one ciphertext, and hold transforms in registers: 1024 complex values are a square of 32 by 32, of
// which a lane has a column of 32. A transform is a tree of 32 leaves over the columns, a transposition through shared
// memory, and a tree over the rows. After the transposition a lane has a column of one polynomial, and the lane 16
// further on the same column of the other, so that the product with the key takes one exchange between them. A block
// rotates several ciphertexts, which read the key together.
#pragma once
#include "transform.h"
#include "unrolled.h"

namespace fast {

constexpr u32 SIZE_LOG2 = 11, SIZE = 1 << SIZE_LOG2, HALF = SIZE / 2;
// The square's side, and how far apart its rows lie in shared memory: no two lanes of a warp meet in a bank.
constexpr u32 SIDE = 32, PITCH = SIDE + 1;
// Ciphertexts of a block, and threads of each.
constexpr u32 LANES = 4, THREADS = 64;
// Values of a step's key: two rows, two columns.
constexpr u32 STEP_VALUES = 4 * HALF;
// Factors of a lane's tree: 1, 1, 2, 4 and 8 for its five stages. A further quarter turn costs nothing.
constexpr u32 FACTORS = 16;

// What a block shares.
struct Shared {
  double2 squares[LANES][2][SIDE * PITCH];
  u32 accumulators[LANES][2][SIZE];
  double2 forward[FACTORS * SIDE], inverse[FACTORS * SIDE];
};

// (a, b) = (a + w b, a - w b), in six multiplications with addition.
__device__ __forceinline__ void butterfly(double2 &a, double2 &b, double re, double im) {
  double x = fma(-im, b.y, fma(re, b.x, a.x)), y = fma(im, b.x, fma(re, b.y, a.y));
  b = make_double2(fma(2.0, a.x, -x), fma(2.0, a.y, -y));
  a = make_double2(x, y);
}

// The same for w = 1.
__device__ __forceinline__ void butterfly(double2 &a, double2 &b) {
  double2 sum = plus(a, b);
  b = minus(a, b);
  a = sum;
}

// The same for w = SIGN i.
template <int SIGN> __device__ __forceinline__ void butterfly_at_quarter(double2 &a, double2 &b) {
  double2 turned = make_double2(-SIGN * b.y, SIGN * b.x);
  butterfly(a, turned);
  b = turned;
}

// Values of a polynomial of 32 coefficients where x^32 = exp(SIGN 2 pi i NUMERATOR / DENOMINATOR): at the place of i is
// the root that the reversed bits of i number.
template <int SIGN, int NUMERATOR, int DENOMINATOR> __device__ __forceinline__ void tree(double2 *x) {
  unrolled<5>([&](auto stage) {
    constexpr u32 t = stage.value, half = SIDE / 2 >> t;
    unrolled<(1u << t)>([&](auto node) {
      constexpr int denominator = DENOMINATOR * (2 << t);
      constexpr int numerator = NUMERATOR + int(reversed(node.value, t)) * DENOMINATOR;
      constexpr Root w = root_of_unity(SIGN * numerator, denominator);
      unrolled<half>([&](auto j) {
        constexpr u32 low = node.value * 2 * half + j.value;
        if constexpr (numerator == 0)
          butterfly(x[low], x[low + half]);
        else if constexpr (4 * numerator == denominator)
          butterfly_at_quarter<SIGN>(x[low], x[low + half]);
        else
          butterfly(x[low], x[low + half], w.re, w.im);
      });
    });
  });
}

// The same where the root is the lane's own: `factor(i)` are its factors, FACTORS of them.
template <int SIGN, class Factor> __device__ __forceinline__ void tree_of_lane(double2 *x, Factor factor) {
  unrolled<5>([&](auto stage) {
    constexpr u32 t = stage.value, half = SIDE / 2 >> t, own = t < 1 ? 1 : 1 << (t - 1), first = t < 1 ? 0 : own;
    unrolled<own>([&](auto m) {
      double2 w = factor(first + m.value);
      unrolled<half>([&](auto j) {
        constexpr u32 low = reversed(m.value, t) * 2 * half + j.value;
        butterfly(x[low], x[low + half], w.x, w.y);
      });
      if constexpr (t >= 1)
        unrolled<half>([&](auto j) {
          // A quarter turn on.
          constexpr u32 low = reversed(m.value + own, t) * 2 * half + j.value;
          butterfly(x[low], x[low + half], -SIGN * w.y, SIGN * w.x);
        });
    });
  });
}

// Factor `index` of column `column`, as a power of exp(i pi / N): the column's root is exp(2 pi i (column + offset / 4)
// / 32).
__device__ __forceinline__ u32 factor_power(u32 index, u32 column, u32 offset) {
  u32 stage = index == 0 ? 0 : 32 - __clz(index), m = index == 0 ? 0 : index - (1 << (stage - 1));
  return (16 * (4 * column + offset + 128 * m)) >> stage;
}

// Where a step's key has a value: of a leaf and a column of the square, of the polynomial that multiplies polynomial
// `row_polynomial` and is added to `column_polynomial`. A lane reads what multiplies its own polynomial first, and then
// what multiplies the other one.
__device__ __forceinline__ u32 key_place(u32 leaf, u32 column, u32 row_polynomial, u32 column_polynomial) {
  u32 is_other = row_polynomial != column_polynomial;
  return leaf * 128 + is_other * 64 + (column >> 4) * 32 + (column & 15) + 16 * column_polynomial;
}

// What lane ^ 16 has.
__device__ __forceinline__ double2 of_other_polynomial(double2 value) {
  return make_double2(__shfl_xor_sync(~0u, value.x, 16), __shfl_xor_sync(~0u, value.y, 16));
}

// The digit of a word, as a double: 2^52 + 2^31 + digit is written bit by bit, which costs no conversion.
__device__ __forceinline__ double digit(u32 word, u32 base_log) {
  int rounded = int(word + (1u << (31 - base_log))) >> (32 - base_log);
  return __hiloint2double(0x43300000, int(u32(rounded) ^ 0x80000000u)) - 4503601774854144.0;
}

__device__ void blind_rotate(const u32 *exponents, const u64 *const *tables, const u32 *table_of, const double2 *key,
                             const double2 *roots, u64 *glwes, u32 lanes, u32 steps, u32 base_log) {
  DYNAMIC_SHARED(Shared, shared);
  u32 thread = threadIdx.x % SIDE, warp = threadIdx.x / SIDE % 2, pair = threadIdx.x / THREADS;
  for (u32 index = threadIdx.x; index < FACTORS * SIDE; index += LANES * THREADS) {
    shared->forward[index] = roots[factor_power(index / SIDE, index % SIDE, 1)];
    shared->inverse[index] = conjugate(roots[factor_power(index / SIDE, index % SIDE, 0)]);
  }
  __syncthreads();
  u32 lane = blockIdx.x * LANES + pair;
  if (lane >= lanes)
    return;
  exponents += u64(lane) * (steps + 1);
  u32 *accumulator = shared->accumulators[pair][warp];
  double2 *square = shared->squares[pair][warp];
  const u64 *table = tables[table_of[lane]];
  for (u32 j = thread; j < SIZE; j += SIDE) {
    // The mask is zero, the body X^-exponent times the table.
    u32 from = (j + exponents[steps]) & (2 * SIZE - 1);
    u32 word = warp == 0 ? 0 : u32((table[from & (SIZE - 1)] + (1u << 31)) >> 32);
    accumulator[j] = from & SIZE ? 0u - word : word;
  }
  __syncwarp();
  // From the transposition on, a thread has this column of this polynomial.
  u32 column = thread % 16 + 16 * warp, polynomial = thread / 16;
  double2 *of_column = shared->squares[pair][polynomial];
#pragma unroll 1
  for (u32 step = 0; step < steps; step++) {
    double2 x[SIDE];
    u32 turned = thread + 2 * SIZE - exponents[step];
    auto difference = [&](u32 offset) {
      u32 from = (turned + offset) & (2 * SIZE - 1), word = accumulator[from & (SIZE - 1)];
      return (from & SIZE ? 0u - word : word) - accumulator[thread + offset];
    };
    unrolled<SIDE>([&](auto r) {
      u32 low = difference(SIDE * r.value), high = difference(SIDE * r.value + HALF);
      x[r.value] = make_double2(digit(low, base_log), digit(high, base_log));
    });
    tree<1, 1, 4>(x);
    unrolled<SIDE>([&](auto i) { square[reversed(i.value, 5) * PITCH + thread] = x[i.value]; });
    pair_barrier(pair, THREADS);
    unrolled<SIDE>([&](auto i) { x[i.value] = of_column[column * PITCH + i.value]; });
    tree_of_lane<1>(x, [&](u32 index) { return shared->forward[index * SIDE + column]; });
    const double2 *own = key + u64(step) * STEP_VALUES + warp * SIDE + thread;
    unrolled<SIDE>([&](auto i) {
      double2 value = x[i.value], other = of_other_polynomial(value);
      double2 a = own[i.value * 128], b = own[i.value * 128 + 64];
      double re = fma(-other.y, b.y, fma(other.x, b.x, fma(-value.y, a.y, value.x * a.x)));
      double im = fma(other.y, b.x, fma(other.x, b.y, fma(value.y, a.x, value.x * a.y)));
      x[i.value] = make_double2(re, im);
    });
    // The way back begins in order.
    unrolled<SIDE>([&](auto i) {
      constexpr u32 other = reversed(i.value, 5);
      if constexpr (i.value < other) {
        double2 value = x[i.value];
        x[i.value] = x[other];
        x[other] = value;
      }
    });
    tree<-1, 0, 1>(x);
    // All have read their columns before others take their place.
    pair_barrier(pair, THREADS);
    unrolled<SIDE>([&](auto i) { of_column[reversed(i.value, 5) * PITCH + column] = x[i.value]; });
    pair_barrier(pair, THREADS);
    unrolled<SIDE>([&](auto i) { x[i.value] = square[thread * PITCH + i.value]; });
    tree_of_lane<-1>(x, [&](u32 index) { return shared->inverse[index * SIDE + thread]; });
    // Loaded anew each time: there is no register to keep it in.
    double2 untwist = conjugate(roots[thread]);
    untwist = make_double2(untwist.x * (1.0 / HALF), untwist.y * (1.0 / HALF));
    unrolled<SIDE>([&](auto i) {
      constexpr u32 r = reversed(i.value, 5);
      constexpr Root w = root_of_unity(-int(r), 4 * SIDE);
      double2 value = times(x[i.value], times(untwist, make_double2(w.re, w.im)));
      accumulator[thread + SIDE * r] += u32(__double2ll_rn(value.x));
      accumulator[thread + SIDE * r + HALF] += u32(__double2ll_rn(value.y));
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
