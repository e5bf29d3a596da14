// The kernels under the emulator, launched by name as the driver does, and kernels that the emulator is tested with.
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

// Each block stores its number in the next one of its cluster, of which blocks below `comers` come to a barrier; what a
// block was given goes to `numbers`.
constexpr u32 TEST_CLUSTER = 4;
static void test_cluster(double *numbers, u32 comers) {
  DYNAMIC_SHARED(double2, given);
  u32 rank = blockIdx.x % TEST_CLUSTER;
  arrive_at_cluster();
  wait_for_cluster();
  if (threadIdx.x == 0)
    store_in_block((rank + 1) % TEST_CLUSTER, given, make_double2(blockIdx.x, 0));
  if (rank < comers) {
    arrive_at_cluster();
    wait_for_cluster();
  }
  numbers[blockIdx.x] = given->x;
}

// Copies a number by way of shared memory, and reads it before or after it has waited.
static void test_copy(double2 *numbers, u32 waits) {
  DYNAMIC_SHARED(double2, copy);
  copy_meanwhile(&copy[threadIdx.x], &numbers[0]);
  if (waits)
    wait_for_copies();
  numbers[threadIdx.x + 1] = copy[threadIdx.x];
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
  // Blocks of a cluster.
  u32 cluster = 1;
};

#define CLUSTERED(NAME, BLOCKS)                                                                                        \
  { #NAME, [](void **arguments) { return bind(NAME, arguments); }, BLOCKS }
#define KERNEL(NAME) CLUSTERED(NAME, 1)

static const Kernel KERNELS[] = {
    KERNEL(linear_combination_32),     KERNEL(linear_combination_64),     KERNEL(modulus_switch_32),
    KERNEL(modulus_switch_64),         KERNEL(sample_extract_32),         KERNEL(sample_extract_64),
    KERNEL(store_rows_32),             KERNEL(store_rows_64),             KERNEL(key_switch_32_32),
    KERNEL(key_switch_64_32),          KERNEL(key_switch_64_64),          KERNEL(transform_key_32),
    KERNEL(transform_key_64),          KERNEL(blind_rotate_32),           KERNEL(blind_rotate_64),
    KERNEL(blind_rotate_groups_32_32), KERNEL(blind_rotate_groups_64_32), KERNEL(blind_rotate_groups_64_64),
    KERNEL(transform_key_2048_64),     KERNEL(blind_rotate_2048_64),
    KERNEL(blind_rotate_512_64),       KERNEL(blind_rotate_2048_few_64),
    CLUSTERED(blind_rotate_groups_2048_64, latency::BLOCKS),
    KERNEL(test_barrier),              KERNEL(test_shared),               KERNEL(test_copy),
    CLUSTERED(test_cluster, TEST_CLUSTER),
};

extern "C" int emulate(const char *name, u32 grid_x, u32 grid_y, u32 threads, u32 shared_bytes, void **arguments) {
  for (const Kernel &kernel : KERNELS)
    if (!strcmp(kernel.name, name))
      return emulator::launch({grid_x, grid_y}, kernel.cluster, threads, shared_bytes, kernel.bind(arguments));
  return emulator::UNKNOWN_KERNEL;
}
