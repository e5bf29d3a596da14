// The kernels under the emulator, each by a function that Rust calls, and two of the emulator's own tests.
#include "emulator.h"

#include "exact.cu"

// A grid of `x` by `y` blocks of as many threads as the kernels are made for.
static int launch(u32 x, u32 y, const std::function<void()> &kernel) {
  return emulator::launch({x, y}, THREADS, kernel);
}

#define EXACT_LAUNCHES(T, BITS_OF_T)                                                                                   \
  extern "C" int emulate_linear_combination_##BITS_OF_T(u32 lanes, const T *arena, const u32 *terms_end,               \
                                                        const u32 *slots, const i64 *factors, const u64 *constants,    \
                                                        T *sums, u32 dimension) {                                      \
    return launch(lanes, 1, [=] {                                                                                      \
      linear_combination_##BITS_OF_T(arena, terms_end, slots, factors, constants, sums, dimension);                    \
    });                                                                                                                \
  }                                                                                                                    \
  extern "C" int emulate_modulus_switch_##BITS_OF_T(u32 lanes, const T *inputs, u32 *exponents, u32 dimension,         \
                                                    u32 log2, u32 centred) {                                           \
    return launch(lanes, 1, [=] { modulus_switch_##BITS_OF_T(inputs, exponents, dimension, log2, centred); });         \
  }                                                                                                                    \
  extern "C" int emulate_sample_extract_##BITS_OF_T(u32 outputs, const T *glwes, const u32 *sources,                   \
                                                    const u32 *indices, const u32 *slots, T *arena,                    \
                                                    u32 glwe_dimension, u32 polynomial_size) {                         \
    return launch(outputs, 1, [=] {                                                                                    \
      sample_extract_##BITS_OF_T(glwes, sources, indices, slots, arena, glwe_dimension, polynomial_size);              \
    });                                                                                                                \
  }

#define KEY_SWITCH_LAUNCH(T, S, NAME)                                                                                  \
  extern "C" int emulate_##NAME(u32 lanes, const T *inputs, const S *key, S *outputs, u32 input_dimension,             \
                                u32 output_dimension, u32 base_log, u32 levels, u32 modulus_log2) {                    \
    return launch(lanes, output_dimension / THREADS + 1, [=] {                                                         \
      NAME(inputs, key, outputs, input_dimension, output_dimension, base_log, levels, modulus_log2);                   \
    });                                                                                                                \
  }

EXACT_LAUNCHES(u32, 32)
EXACT_LAUNCHES(u64, 64)
KEY_SWITCH_LAUNCH(u32, u32, key_switch_32_32)
KEY_SWITCH_LAUNCH(u64, u32, key_switch_64_32)
KEY_SWITCH_LAUNCH(u64, u64, key_switch_64_64)

// Threads below `comers` come to a barrier that the others never come to.
extern "C" int emulate_barrier(u32 comers) {
  return launch(1, 1, [=] {
    if (threadIdx.x < comers)
      __syncthreads();
  });
}
