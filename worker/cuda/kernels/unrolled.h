// Compile-time constants: loops without a counter, and roots of unity. An array that only such
// loops index stays in registers.
#pragma once
#include "words.h"

// The index of a loop, as a type.
template <u32 I> struct Index {
  static constexpr u32 value = I;
};

// Halves the range, so that the depth of template recursion stays logarithmic.
template <u32 FROM, u32 COUNT, class F> __device__ __forceinline__ void unrolled_from(F &step) {
  if constexpr (COUNT == 1) {
    step(Index<FROM>{});
  } else {
    unrolled_from<FROM, COUNT / 2>(step);
    unrolled_from<FROM + COUNT / 2, COUNT - COUNT / 2>(step);
  }
}

// Calls `step` with each index below COUNT.
template <u32 COUNT, class F> __device__ __forceinline__ void unrolled(F step) { unrolled_from<0, COUNT>(step); }

// The lowest `bits` bits of a number in reversed order.
constexpr u32 reversed(u32 number, u32 bits) {
  u32 result = 0;
  for (u32 bit = 0; bit < bits; bit++)
    result |= (number >> bit & 1) << (bits - 1 - bit);
  return result;
}

struct Root {
  double re, im;
};

// exp(2 pi i numerator / denominator), by a power series around the nearest axis.
constexpr Root root_of_unity(int numerator, int denominator) {
  numerator %= denominator;
  if (numerator < 0)
    numerator += denominator;
  int axis = (8 * numerator / denominator + 1) / 2;
  double angle = 6.283185307179586476925286766559 * (4 * numerator - axis * denominator) / (4.0 * denominator);
  double square = angle * angle, cosine = 1, sine = angle, cosine_term = 1, sine_term = angle;
  for (int power = 2; power < 26; power += 2) {
    cosine_term *= -square / ((power - 1) * power);
    sine_term *= -square / (power * (power + 1));
    cosine += cosine_term;
    sine += sine_term;
  }
  switch (axis & 3) {
  case 0:
    return {cosine, sine};
  case 1:
    return {-sine, cosine};
  case 2:
    return {-cosine, -sine};
  default:
    return {sine, -cosine};
  }
}
