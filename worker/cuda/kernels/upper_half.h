// Accumulators that keep the upper 32 bits of each word: initial values, digits and additions.
#pragma once
#include "words.h"

// The digit of a word, as a double. The code writes the bits of 2^52 + 2^31 + digit, which saves a
// conversion.
__device__ __forceinline__ double digit(u32 word, u32 base_log) {
  int rounded = int(word + (1u << (31 - base_log))) >> (32 - base_log);
  return __hiloint2double(0x43300000, int(u32(rounded) ^ 0x80000000u)) - 4503601774854144.0;
}

// Word `j` of a new accumulator: the upper 32 bits of X^-exponent times a table's body.
__device__ __forceinline__ u32 table_word(const u64 *table, u32 j, u32 exponent, u32 size) {
  u32 from = (j + exponent) & (2 * size - 1), word = u32((table[from & (size - 1)] + (1u << 31)) >> 32);
  return from & size ? 0u - word : word;
}

// Digit of coefficient `j` of X^exponent times a polynomial, minus the polynomial. `from` is j -
// exponent modulo 2N. The caller adds the part of `from` that differs between a thread's
// coefficients last. Otherwise the compiler keeps a separate sum in registers for each coefficient.
__device__ __forceinline__ double digit_of_difference(const u32 *polynomial, u32 j, u32 from, u32 size, u32 base_log) {
  from &= 2 * size - 1;
  u32 word = polynomial[from & (size - 1)];
  return digit((from & size ? 0u - word : word) - polynomial[j], base_log);
}

// Adds the last values of a product to coefficients `low` and `high`.
__device__ __forceinline__ void add_to(u32 &low, u32 &high, double2 value) {
  low += u32(__double2ll_rn(value.x));
  high += u32(__double2ll_rn(value.y));
}
