// Blind rotation for any shape of key, with a ciphertext for each block. A block works in global
// memory, apart from one transform in shared memory. The kernel serves every parameter set and is
// optimized for none.
#pragma once
#include "transform.h"

// Sizes of a blind rotation. A block's dynamic shared memory is one transform, N/2 complex numbers.
struct Rotation {
  u32 steps, glwe_dimension, size_log2;
  Gadget gadget;
};

// Coefficient `j` of X^exponent times a polynomial, for exponents below 2N.
template <class T> __device__ inline T rotated(const T *polynomial, u32 j, u32 exponent, u32 size) {
  u32 from = (j + 2 * size - exponent) & (2 * size - 1);
  T word = polynomial[from & (size - 1)];
  return from & size ? T(0) - word : word;
}

// Sets the block's ciphertext to (0, X^-exponent table).
template <class T>
__device__ void load_table(T *glwe, const T *table, u32 exponent, Rotation rotation) {
  u32 size = 1u << rotation.size_log2, masks = rotation.glwe_dimension * size;
  for (u32 word = threadIdx.x; word < masks; word += blockDim.x)
    glwe[word] = 0;
  for (u32 j = threadIdx.x; j < size; j += blockDim.x)
    glwe[masks + j] = rotated(table, j, (2 * size - exponent) & (2 * size - 1), size);
  __syncthreads();
}

// Digit `level` of a word, where level 0 is the least significant digit.
template <class T> __device__ inline double digit(Gadget gadget, T word, u32 level) {
  i64 state = round_to_digits(gadget, word), digit = 0;
  for (u32 peeled = 0; peeled <= level; peeled++)
    digit = next_digit(gadget, state);
  return double(digit);
}

// `sums[column] = sum over rows and levels of digits times the key's polynomial`. `word(row, j)` is
// the word to decompose, and `key(polynomial, place)` is a value of the step's key. The key orders
// its polynomials by level, the smallest first, then row, then column. Every thread sums up its own
// places.
template <class Word, class Key>
__device__ __forceinline__ void external_product(double2 *x, double2 *sums, const double2 *roots, Rotation rotation,
                                                 Word word, Key key) {
  u32 half = 1u << (rotation.size_log2 - 1), columns = rotation.glwe_dimension + 1;
  for (u32 level = 0; level < rotation.gadget.levels; level++)
    for (u32 row = 0; row < columns; row++) {
      for (u32 j = threadIdx.x; j < half; j += blockDim.x) {
        double low = digit(rotation.gadget, word(row, j), level);
        double high = digit(rotation.gadget, word(row, j + half), level);
        x[j] = times(make_double2(low, high), roots[j]);
      }
      forward_transform(x, roots, rotation.size_log2);
      u32 polynomial = (level * columns + row) * columns;
      bool is_first = level == 0 && row == 0;
      for (u32 column = 0; column < columns; column++)
        for (u32 place = threadIdx.x; place < half; place += blockDim.x) {
          double2 product = times(x[place], key(polynomial + column, place));
          double2 *sum = sums + u64(column) * half + place;
          *sum = is_first ? product : plus(*sum, product);
        }
      // Every thread reads `x` before the next row overwrites it.
      __syncthreads();
    }
}

// Transforms the sums back and hands their coefficients to `store(column, j, word)`.
template <class T, class Store>
__device__ __forceinline__ void transform_back(double2 *x, const double2 *sums, const double2 *roots,
                                               Rotation rotation, Store store) {
  u32 half = 1u << (rotation.size_log2 - 1);
  double scale = 1.0 / half;
  for (u32 column = 0; column <= rotation.glwe_dimension; column++) {
    for (u32 place = threadIdx.x; place < half; place += blockDim.x)
      x[place] = sums[u64(column) * half + place];
    inverse_transform(x, roots, rotation.size_log2);
    for (u32 j = threadIdx.x; j < half; j += blockDim.x) {
      double2 pair = times(x[j], conjugate(roots[j]));
      store(column, j, round_to_torus<T>(pair.x * scale));
      store(column, j + half, round_to_torus<T>(pair.y * scale));
    }
    __syncthreads();
  }
}

// Rotates by one secret bit a step: `glwe += GGSW(s_i) * (X^a_i glwe - glwe)`. A row of exponents
// holds those of the mask, then that of the body.
template <class T>
__device__ void blind_rotate(const u32 *exponents, const T *const *tables, const u32 *table_of, const double2 *key,
                             const double2 *roots, T *glwes, double2 *scratch, Rotation rotation) {
  DYNAMIC_SHARED(double2, x);
  u32 size = 1u << rotation.size_log2, half = size / 2, columns = rotation.glwe_dimension + 1, lane = blockIdx.x;
  T *glwe = glwes + u64(lane) * columns * size;
  double2 *sums = scratch + u64(lane) * columns * half;
  exponents += u64(lane) * (rotation.steps + 1);
  load_table(glwe, tables[table_of[lane]], exponents[rotation.steps], rotation);
  u64 step_values = u64(rotation.gadget.levels) * columns * columns * half;
  for (u32 step = 0; step < rotation.steps; step++, key += step_values) {
    u32 exponent = exponents[step];
    if (exponent == 0)
      continue;
    external_product(
        x, sums, roots, rotation,
        [=](u32 row, u32 j) {
          const T *polynomial = glwe + row * size;
          return T(rotated(polynomial, j, exponent, size) - polynomial[j]);
        },
        [=](u32 polynomial, u32 place) { return key[u64(polynomial) * half + place]; });
    transform_back<T>(x, sums, roots, rotation, [=](u32 column, u32 j, T word) { glwe[column * size + j] += word; });
  }
}

// Adjusts a word so that rounding to digits, which rounds ties up, rounds ties to even. Words
// straight out of a product end in zeros, so ties are common. Rounding all ties up would shift
// every coefficient in one direction. `dropped` is the number of bits below the digits.
template <class T> __device__ inline T halves_to_even(T word, u32 dropped) { return word - T(~(word >> dropped) & 1); }

// Maximum number of secret bits of a step.
constexpr u32 GROUPING_MAX = 4;

// Rotates by a group of secret bits a step:
// `glwe = (sum over subsets of X^a_subset GGSW(subset)) * glwe`. The sum is computed on transformed
// values, where a rotation is a product with a root. The highest bit of a subset stands for the
// first word of the group.
template <class T, class S>
__device__ void blind_rotate_groups(const S *inputs, const T *const *tables, const u32 *table_of, const double2 *key,
                                    const double2 *roots, T *glwes, double2 *scratch, u32 grouping, Rotation rotation) {
  DYNAMIC_SHARED(double2, x);
  __shared__ u32 exponents[1 << GROUPING_MAX];
  u32 size = 1u << rotation.size_log2, half = size / 2, columns = rotation.glwe_dimension + 1, lane = blockIdx.x;
  u32 log2 = rotation.size_log2 + 1, subsets = 1u << grouping, size_log2 = rotation.size_log2;
  T *glwe = glwes + u64(lane) * columns * size;
  double2 *sums = scratch + u64(lane) * columns * half;
  const S *input = inputs + u64(lane) * (u64(rotation.steps) * grouping + 1);
  u32 body = u32(round_to_modulus(input[u64(rotation.steps) * grouping], log2));
  load_table(glwe, tables[table_of[lane]], body, rotation);
  u64 subset_values = u64(rotation.gadget.levels) * columns * columns * half;
  u32 dropped = BITS<T> - rotation.gadget.base_log * rotation.gadget.levels;
  for (u32 step = 0; step < rotation.steps; step++, input += grouping, key += subsets * subset_values) {
    for (u32 subset = threadIdx.x; subset < subsets; subset += blockDim.x) {
      S sum = 0;
      for (u32 bit = 0; bit < grouping; bit++)
        if (subset >> bit & 1)
          sum += input[grouping - 1 - bit];
      exponents[subset] = u32(round_to_modulus(sum, log2));
    }
    __syncthreads();
    const u32 *rotations = exponents;
    external_product(
        x, sums, roots, rotation, [=](u32 row, u32 j) { return halves_to_even(glwe[row * size + j], dropped); },
        [=](u32 polynomial, u32 place) {
          u32 odd = 4 * value_at(place, size_log2) + 1;
          double2 sum = make_double2(0, 0);
          for (u32 subset = 0; subset < subsets; subset++) {
            double2 value = key[subset * subset_values + u64(polynomial) * half + place];
            sum = plus(sum, times(value, roots[(odd * rotations[subset]) & (2 * size - 1)]));
          }
          return sum;
        });
    transform_back<T>(x, sums, roots, rotation, [=](u32 column, u32 j, T word) { glwe[column * size + j] = word; });
  }
}

// The macros instantiate each kernel by its widths, under the name by which the driver finds it. A
// block has at most ROTATION_THREADS_MAX threads.
constexpr u32 ROTATION_THREADS_MAX = 256;

#define ROTATION_KERNELS(T, BITS_OF_T)                                                                                 \
  extern "C" __global__ void __launch_bounds__(ROTATION_THREADS_MAX, 1)                                                \
      blind_rotate_##BITS_OF_T(const u32 *exponents, const T *const *tables, const u32 *table_of, const double2 *key,  \
                               const double2 *roots, T *glwes, double2 *scratch, u32 steps, u32 glwe_dimension,        \
                               u32 size_log2, u32 base_log, u32 levels) {                                              \
    blind_rotate(exponents, tables, table_of, key, roots, glwes, scratch,                                              \
                 Rotation{steps, glwe_dimension, size_log2, Gadget{base_log, levels}});                                \
  }

#define GROUP_ROTATION_KERNEL(T, S, NAME)                                                                              \
  extern "C" __global__ void __launch_bounds__(ROTATION_THREADS_MAX, 1)                                                \
      NAME(const S *inputs, const T *const *tables, const u32 *table_of, const double2 *key, const double2 *roots,     \
           T *glwes, double2 *scratch, u32 steps, u32 grouping, u32 glwe_dimension, u32 size_log2, u32 base_log,       \
           u32 levels) {                                                                                               \
    blind_rotate_groups(inputs, tables, table_of, key, roots, glwes, scratch, grouping,                                \
                        Rotation{steps, glwe_dimension, size_log2, Gadget{base_log, levels}});                         \
  }

ROTATION_KERNELS(u32, 32)
ROTATION_KERNELS(u64, 64)
GROUP_ROTATION_KERNEL(u32, u32, blind_rotate_groups_32_32)
GROUP_ROTATION_KERNEL(u64, u32, blind_rotate_groups_64_32)
GROUP_ROTATION_KERNEL(u64, u64, blind_rotate_groups_64_64)
