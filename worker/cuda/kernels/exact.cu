// Exact stages of a wave, apart from the key switch: sums of slots, modulus switch, sample
// extraction. A block processes one ciphertext. The results equal those of crypto/tfhe bit for bit.
#include "words.h"

// Threads of a block of `modulus_switch`. The other kernels work with any number of threads.
constexpr u32 THREADS = 128;

// `sums[lane] = sum of factor * slot over the lane's terms`, plus the lane's constant on the body.
// The terms of a lane begin where those of the previous lane end. Constants are torus words of 64
// bits.
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

// Turns words into exponents below 2^log2. A centred switch first subtracts two values from the
// body: half a step, and the mean of what the mask's rounding errors add to the phase.
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
    // The error is signed, at the word's own width.
    i64 wide = sizeof(T) == 4 ? i64(int(error)) : i64(error);
    // Division rounds towards zero. The halves that it drops are summed up, and the sum is halved
    // at the end.
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

// Extracts a coefficient of a GLWE ciphertext (k masks, then the body) as an LWE ciphertext, into a
// slot of the arena. Each output names its ciphertext, its coefficient and its slot.
template <class T>
__device__ void sample_extract(const T *glwes, const u32 *sources, const u32 *indices, const u32 *slots, T *arena,
                               u32 glwe_dimension, u32 polynomial_size) {
  u64 dimension = u64(glwe_dimension) * polynomial_size, index = indices[blockIdx.x];
  const T *glwe = glwes + sources[blockIdx.x] * (dimension + polynomial_size);
  T *output = arena + slots[blockIdx.x] * (dimension + 1);
  for (u64 word = threadIdx.x; word < dimension; word += blockDim.x) {
    u64 coefficient = word % polynomial_size, polynomial = word - coefficient;
    // Coefficient `index` of a * s multiplies s_i by a_{index-i}, or by -a_{N+index-i} where the
    // index wraps.
    output[word] = coefficient <= index ? glwe[polynomial + index - coefficient]
                                        : T(0) - glwe[polynomial + polynomial_size + index - coefficient];
  }
  if (threadIdx.x == 0)
    output[dimension] = glwe[dimension + index];
}

// Copies rows of `words` words, each into its slot of the arena.
template <class T> __device__ void store_rows(const T *rows, const u32 *slots, T *arena, u32 words) {
  const T *row = rows + u64(blockIdx.x) * words;
  T *slot = arena + u64(slots[blockIdx.x]) * words;
  for (u32 word = threadIdx.x; word < words; word += blockDim.x)
    slot[word] = row[word];
}

// The macro instantiates each kernel by its widths, under the name by which the driver finds it.
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

EXACT_KERNELS(u32, 32)
EXACT_KERNELS(u64, 64)
