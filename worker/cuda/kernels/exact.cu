// The stages of a wave that are exact: sums of slots, key switch, modulus switch, sample extraction. Bit for bit what
// crypto/tfhe computes, on one ciphertext a block.
#include "words.h"

// Threads of a block of `key_switch` and `modulus_switch`; the other kernels take any number.
constexpr u32 THREADS = 128;

// `sums[lane] = sum of factor * slot over the lane's terms`, with the lane's constant on the body. Terms of a lane
// begin where those of the lane before it end. Constants stand for torus words in 64 bits.
template <class T>
__device__ void linear_combination(const T *arena, const u32 *terms_end, const u32 *slots, const i64 *factors,
                                   const u64 *constants, T *sums, u32 dimension) {
  u32 lane = blockIdx.x, first = lane == 0 ? 0 : terms_end[lane - 1], end = terms_end[lane];
  u64 stride = u64(dimension) + 1;
  for (u64 word = threadIdx.x; word < stride; word += blockDim.x) {
    T sum = word == dimension ? T(constants[lane] >> (64 - BITS<T>)) : T(0);
    for (u32 term = first; term < end; term++)
      sum += T(factors[term]) * arena[slots[term] * stride + word];
    sums[lane * stride + word] = sum;
  }
}

// `outputs = (0, body) - sum of digits * key`, the body rounded to the output modulus. Block (lane, strip) makes
// THREADS columns of one ciphertext. Rows of the key lie by input word and level, the smallest level first.
template <class T, class S>
__device__ void key_switch(const T *inputs, const S *key, S *outputs, u32 input_dimension, u32 output_dimension,
                           Gadget gadget, u32 modulus_log2) {
  __shared__ i64 states[THREADS];
  const T *input = inputs + blockIdx.x * (u64(input_dimension) + 1);
  u32 columns = output_dimension + 1, column = blockIdx.y * THREADS + threadIdx.x;
  S sum = 0;
  if (column == output_dimension) {
    T body = input[input_dimension];
    sum = modulus_log2 == BITS<T> ? S(body) : S(round_to_modulus(body, modulus_log2)) << (BITS<S> - modulus_log2);
  }
  for (u32 first = 0; first < input_dimension; first += THREADS) {
    u32 count = input_dimension - first < THREADS ? input_dimension - first : THREADS;
    if (threadIdx.x < count)
      states[threadIdx.x] = round_to_digits(gadget, input[first + threadIdx.x]);
    __syncthreads();
    for (u32 word = 0; column < columns && word < count; word++) {
      i64 state = states[word];
      const S *row = key + u64(first + word) * gadget.levels * columns + column;
      for (u32 level = 0; level < gadget.levels; level++, row += columns)
        sum -= S(next_digit(gadget, state)) * *row;
    }
    // The states are used up before others take their place.
    __syncthreads();
  }
  if (column < columns)
    outputs[blockIdx.x * u64(columns) + column] = sum;
}

// Words become exponents below 2^log2. A centred switch first takes off the body what the rounding errors of the mask
// add to the phase on average, and half a step.
template <class T>
__device__ void modulus_switch(const T *inputs, u32 *exponents, u32 dimension, u32 log2, u32 centred) {
  __shared__ T halves[THREADS];
  __shared__ i64 lost[THREADS];
  const T *input = inputs + blockIdx.x * (u64(dimension) + 1);
  u32 *output = exponents + blockIdx.x * (u64(dimension) + 1);
  T half_errors = 0;
  i64 lost_doubled = 0;
  for (u32 word = threadIdx.x; word < dimension; word += THREADS) {
    T exponent = round_to_modulus(input[word], log2);
    output[word] = u32(exponent);
    T error = T(exponent << (BITS<T> - log2)) - input[word];
    // Signed, at the word's own width.
    i64 wide = sizeof(T) == 4 ? i64(int(error)) : i64(error);
    // Division rounds towards zero; what it loses is summed up and halved at the end.
    half_errors += T(wide / 2);
    lost_doubled += 2 * (wide / 2) - wide;
  }
  halves[threadIdx.x] = half_errors;
  lost[threadIdx.x] = lost_doubled;
  __syncthreads();
  for (u32 width = THREADS / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) {
      halves[threadIdx.x] += halves[threadIdx.x + width];
      lost[threadIdx.x] += lost[threadIdx.x + width];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    T half_step = T(1) << (BITS<T> - log2 - 1);
    T centring = halves[0] - T(lost[0] / 2) - half_step;
    output[dimension] = u32(round_to_modulus(T(input[dimension] + (centred ? centring : T(0))), log2));
  }
}

// A coefficient of a GLWE ciphertext, k masks and then the body, as an LWE ciphertext in a slot of the arena. Each
// output names its ciphertext, its coefficient and its slot.
template <class T>
__device__ void sample_extract(const T *glwes, const u32 *sources, const u32 *indices, const u32 *slots, T *arena,
                               u32 glwe_dimension, u32 polynomial_size) {
  u64 dimension = u64(glwe_dimension) * polynomial_size, index = indices[blockIdx.x];
  const T *glwe = glwes + sources[blockIdx.x] * (dimension + polynomial_size);
  T *output = arena + slots[blockIdx.x] * (dimension + 1);
  for (u64 word = threadIdx.x; word < dimension; word += blockDim.x) {
    u64 coefficient = word % polynomial_size, polynomial = word - coefficient;
    // Coefficient `index` of a * s takes a_{index-i} for s_i, and -a_{N+index-i} where that wraps round.
    output[word] = coefficient <= index ? glwe[polynomial + index - coefficient]
                                        : T(0) - glwe[polynomial + polynomial_size + index - coefficient];
  }
  if (threadIdx.x == 0)
    output[dimension] = glwe[dimension + index];
}

// Rows of `words` words, each into its slot of the arena.
template <class T> __device__ void store_rows(const T *rows, const u32 *slots, T *arena, u32 words) {
  const T *row = rows + u64(blockIdx.x) * words;
  T *slot = arena + u64(slots[blockIdx.x]) * words;
  for (u32 word = threadIdx.x; word < words; word += blockDim.x)
    slot[word] = row[word];
}

// Each kernel by its widths, under a name that the driver finds it by.
#define EXACT_KERNELS(T, BITS_OF_T)                                                                                    \
  extern "C" __global__ void linear_combination_##BITS_OF_T(const T *arena, const u32 *terms_end, const u32 *slots,    \
                                                            const i64 *factors, const u64 *constants, T *sums,         \
                                                            u32 dimension) {                                           \
    linear_combination(arena, terms_end, slots, factors, constants, sums, dimension);                                  \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                                \
      modulus_switch_##BITS_OF_T(const T *inputs, u32 *exponents, u32 dimension, u32 log2, u32 centred) {              \
    modulus_switch(inputs, exponents, dimension, log2, centred);                                                       \
  }                                                                                                                    \
  extern "C" __global__ void sample_extract_##BITS_OF_T(const T *glwes, const u32 *sources, const u32 *indices,        \
                                                        const u32 *slots, T *arena, u32 glwe_dimension,                \
                                                        u32 polynomial_size) {                                         \
    sample_extract(glwes, sources, indices, slots, arena, glwe_dimension, polynomial_size);                            \
  }                                                                                                                    \
  extern "C" __global__ void store_rows_##BITS_OF_T(const T *rows, const u32 *slots, T *arena, u32 words) {            \
    store_rows(rows, slots, arena, words);                                                                             \
  }

#define KEY_SWITCH_KERNEL(T, S, NAME)                                                                                  \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                                \
      NAME(const T *inputs, const S *key, S *outputs, u32 input_dimension, u32 output_dimension, u32 base_log,         \
           u32 levels, u32 modulus_log2) {                                                                             \
    key_switch(inputs, key, outputs, input_dimension, output_dimension, Gadget{base_log, levels}, modulus_log2);       \
  }

EXACT_KERNELS(u32, 32)
EXACT_KERNELS(u64, 64)
KEY_SWITCH_KERNEL(u32, u32, key_switch_32_32)
KEY_SWITCH_KERNEL(u64, u32, key_switch_64_32)
KEY_SWITCH_KERNEL(u64, u64, key_switch_64_64)
