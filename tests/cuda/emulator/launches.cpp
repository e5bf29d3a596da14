// The kernels under the emulator, launched by name as the driver does, and two kernels that the emulator is tested
// with.
#include "emulator.h"

#include "kernels.cu"

// Threads below `comers` come to a barrier that the others never come to.
static void test_barrier(u32 comers) {
  if (threadIdx.x < comers)
    __syncthreads();
}

// Copies shared memory that nothing was written to.
static void test_shared(u64 *words, u32 count) {
  DYNAMIC_SHARED(u64, shared);
  for (u32 word = threadIdx.x; word < count; word += blockDim.x)
    words[word] = shared[word];
}

// Calls a kernel with arguments of the types that it takes.
template <class... Types, size_t... Indices>
static void call(void (*kernel)(Types...), void **arguments, std::index_sequence<Indices...>) {
  kernel(*static_cast<Types *>(arguments[Indices])...);
}

template <class... Types> static std::function<void()> bind(void (*kernel)(Types...), void **arguments) {
  return [=] { call(kernel, arguments, std::index_sequence_for<Types...>()); };
}

struct Kernel {
  const char *name;
  std::function<void()> (*bind)(void **arguments);
};

#define KERNEL(NAME)                                                                                                   \
  { #NAME, [](void **arguments) { return bind(NAME, arguments); } }

static const Kernel KERNELS[] = {
    KERNEL(linear_combination_32),     KERNEL(linear_combination_64),     KERNEL(modulus_switch_32),
    KERNEL(modulus_switch_64),         KERNEL(sample_extract_32),         KERNEL(sample_extract_64),
    KERNEL(store_rows_32),             KERNEL(store_rows_64),             KERNEL(key_switch_32_32),
    KERNEL(key_switch_64_32),          KERNEL(key_switch_64_64),          KERNEL(transform_key_32),
    KERNEL(transform_key_64),          KERNEL(blind_rotate_32),           KERNEL(blind_rotate_64),
    KERNEL(blind_rotate_groups_32_32), KERNEL(blind_rotate_groups_64_32), KERNEL(blind_rotate_groups_64_64),
    KERNEL(transform_key_2048_64),     KERNEL(blind_rotate_2048_64),
    KERNEL(test_barrier),              KERNEL(test_shared),
};

extern "C" int emulate(const char *name, u32 grid_x, u32 grid_y, u32 threads, u32 shared_bytes, void **arguments) {
  for (const Kernel &kernel : KERNELS)
    if (!strcmp(kernel.name, name))
      return emulator::launch({grid_x, grid_y}, threads, shared_bytes, kernel.bind(arguments));
  return emulator::UNKNOWN_KERNEL;
}
