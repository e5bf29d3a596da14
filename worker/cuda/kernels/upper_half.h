// Accumulators that keep the upper 32 bits of each word: how they begin, the digits of what they hold, and sums.
#pragma once
#include "words.h"

// The digit of a word, as a double: 2^52 + 2^31 + digit is written bit by bit, which costs no conversion.
__device__ __forceinline__ double digit(u32 word, u32 base_log) {
  int rounded = int(word + (1u << (31 - base_log))) >> (32 - base_log);
  return __hiloint2double(0x43300000, int(u32(rounded) ^ 0x80000000u)) - 4503601774854144.0;
}

// An accumulator of the upper 32 bits of each word begins as X^-exponent times a table's body: word `j` of it.
__device__ __forceinline__ u32 table_word(const u64 *table, u32 j, u32 exponent, u32 size) {
  u32 from = (j + exponent) & (2 * size - 1), word = u32((table[from & (size - 1)] + (1u << 31)) >> 32);
  return from & size ? 0u - word : word;
}

// Digit of coefficient `j` of X^exponent times a polynomial, less the polynomial. `from` is j - exponent modulo 2N; the
// caller adds last what differs between a lane's coefficients, or the compiler would keep a sum for each.
__device__ __forceinline__ double digit_of_difference(const u32 *polynomial, u32 j, u32 from, u32 size, u32 base_log) {
  from &= 2 * size - 1;
  u32 word = polynomial[from & (size - 1)];
  return digit((from & size ? 0u - word : word) - polynomial[j], base_log);
}

// Adds a product's last values to coefficients `low` and `high`.
__device__ __forceinline__ void add_to(u32 &low, u32 &high, double2 value) {
  low += u32(__double2ll_rn(value.x));
  high += u32(__double2ll_rn(value.y));
}
