// Transforms in registers. The values form a square, and each thread holds a column. A transform is
// a tree over the columns, a transposition, and a tree over the rows. A tree evaluates a polynomial
// with as many coefficients as the tree has leaves, stage by stage.
#pragma once
#include "transform.h"
#include "unrolled.h"

// (a, b) = (a + w b, a - w b), in six fused multiply-adds.
__device__ __forceinline__ void butterfly(double2 &a, double2 &b, double re, double im) {
  double x = fma(-im, b.y, fma(re, b.x, a.x)), y = fma(im, b.x, fma(re, b.y, a.y));
  b = make_double2(fma(2.0, a.x, -x), fma(2.0, a.y, -y));
  a = make_double2(x, y);
}

// The butterfly for w = 1.
__device__ __forceinline__ void butterfly(double2 &a, double2 &b) {
  double2 sum = plus(a, b);
  b = minus(a, b);
  a = sum;
}

// The butterfly for w = SIGN i.
template <int SIGN> __device__ __forceinline__ void butterfly_at_quarter(double2 &a, double2 &b) {
  double2 turned = make_double2(-SIGN * b.y, SIGN * b.x);
  butterfly(a, turned);
  b = turned;
}

// Evaluates a polynomial of 2^STAGES coefficients at the points x for which x^(2^STAGES) is
// exp(SIGN 2 pi i NUMERATOR / DENOMINATOR). Place i receives the value at the root whose number is
// the reversed bits of i.
template <u32 STAGES, int SIGN, int NUMERATOR, int DENOMINATOR> __device__ __forceinline__ void tree(double2 *x) {
  unrolled<STAGES>([&](auto stage) {
    constexpr u32 t = stage.value, half = (1u << (STAGES - 1)) >> t;
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

// Number of factors that a thread's tree loads: 1, 1, 2, 4 ... for its stages. A further quarter
// turn of a factor costs nothing.
constexpr u32 factors_of(u32 stages) { return 1u << (stages - 1); }

// The tree where x^(2^STAGES) is the thread's own root. `factor(i)` gives the factors.
template <u32 STAGES, int SIGN, class Factor>
__device__ __forceinline__ void tree_of_lane(double2 *x, Factor factor) {
  unrolled<STAGES>([&](auto stage) {
    constexpr u32 t = stage.value, half = (1u << (STAGES - 1)) >> t, own = t < 1 ? 1 : 1 << (t - 1);
    constexpr u32 first = t < 1 ? 0 : own;
    unrolled<own>([&](auto m) {
      double2 w = factor(first + m.value);
      unrolled<half>([&](auto j) {
        constexpr u32 low = reversed(m.value, t) * 2 * half + j.value;
        butterfly(x[low], x[low + half], w.x, w.y);
      });
      if constexpr (t >= 1)
        unrolled<half>([&](auto j) {
          // The factor, turned by a further quarter.
          constexpr u32 low = reversed(m.value + own, t) * 2 * half + j.value;
          butterfly(x[low], x[low + half], -SIGN * w.y, SIGN * w.x);
        });
    });
  });
}

// Factor `index` of a thread whose root is exp(i pi root / N), as a power of exp(i pi / N).
__device__ __forceinline__ u32 factor_power(u32 index, u32 root, u32 size) {
  u32 stage = index == 0 ? 0 : 32 - __clz(index), m = index == 0 ? 0 : index - (1 << (stage - 1));
  return (root + 2 * size * m) >> (stage + 1);
}

// Loads the factors of all columns of a square of 2^STAGES by 2^STAGES values, with a row for each
// factor. A column's root is exp(2 pi i (column + offset / 4) / 2^STAGES), where the offset is 1
// forward and 0 for the inverse. All threads of a block take part.
template <u32 STAGES>
__device__ __forceinline__ void load_factors(double2 *forward, double2 *inverse, const double2 *roots) {
  constexpr u32 side = 1 << STAGES, size = 2 * side * side;
  for (u32 at = threadIdx.x; at < factors_of(STAGES) * side; at += blockDim.x) {
    u32 index = at / side, column = at % side;
    forward[at] = roots[factor_power(index, (4 * column + 1) * side, size)];
    inverse[at] = conjugate(roots[factor_power(index, 4 * column * side, size)]);
  }
}

// Permutes the values by the reversed bits of their places. An inverse tree takes its values in
// order, and a forward tree leaves them at reversed places.
template <u32 STAGES> __device__ __forceinline__ void reverse(double2 *x) {
  unrolled<(1u << STAGES)>([&](auto i) {
    constexpr u32 other = reversed(i.value, STAGES);
    if constexpr (i.value < other) {
      double2 value = x[i.value];
      x[i.value] = x[other];
      x[other] = value;
    }
  });
}
