// The kernels under the emulator, launched by name as with the driver, and kernels that test the
// emulator.
#include "emulator.h"

#include "kernels.cu"

// Threads below `comers` reach a barrier that the other threads never reach.
static void test_barrier(u32 comers) {
  if (threadIdx.x < comers)
    __syncthreads();
}

// Copies shared memory to which nothing was written.
static void test_shared(u64 *words, u32 count) {
  DYNAMIC_SHARED(u64, shared);
  for (u32 word = threadIdx.x; word < count; word += blockDim.x)
    words[word] = shared[word];
}

// A warp's product of 16 rows of 32 bytes and 32 rows of 8. Elements are placed by the formulas of
// the PTX ISA.
static void test_products(const signed char *digits, const unsigned char *key, int *sums) {
  u32 group = threadIdx.x / 4, in_group = threadIdx.x % 4, of_digits[4] = {}, of_key[2] = {};
  for (u32 i = 0; i < 16; i++) {
    u32 row = i < 4 || (8 <= i && i < 12) ? group : group + 8, column = in_group * 4 + (i & 3) + (i < 8 ? 0 : 16);
    of_digits[i / 4] |= u32((unsigned char)(digits[row * 32 + column])) << 8 * (i % 4);
  }
  for (u32 i = 0; i < 8; i++) {
    u32 row = in_group * 4 + (i & 3) + (i < 4 ? 0 : 16), column = group;
    of_key[i / 4] |= u32(key[row * 8 + column]) << 8 * (i % 4);
  }
  int of_sums[4];
  auto place = [=](u32 i) { return (i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1); };
  for (u32 i = 0; i < 4; i++)
    of_sums[i] = sums[place(i)];
  multiply_bytes(of_sums, of_digits[0], of_digits[1], of_digits[2], of_digits[3], of_key[0], of_key[1]);
  for (u32 i = 0; i < 4; i++)
    sums[place(i)] = of_sums[i];
}

// Blocks whose rank in their cluster is below `comers` reach the cluster's barrier. Blocks whose
// rank is below `givers` then store their number in the next block of the cluster. The number that
// a block received goes to `numbers`. With a `fault`, blocks do not prepare the count, expect bytes
// twice, or do not wait.
constexpr u32 TEST_CLUSTER = 4;
enum Fault : u32 { NONE, UNPREPARED, EXPECTED_TWICE, NO_WAIT };
static void test_cluster(double *numbers, u32 comers, u32 givers, u32 fault) {
  struct Shared {
    double2 given;
    Arrivals arrivals;
  };
  DYNAMIC_SHARED(Shared, shared);
  u32 rank = blockIdx.x % TEST_CLUSTER;
  if (threadIdx.x == 0 && fault != UNPREPARED)
    prepare_arrivals(&shared->arrivals);
  if (threadIdx.x < (fault == EXPECTED_TWICE ? 2 : 1))
    expect_arrivals(&shared->arrivals, sizeof(double2));
  if (rank >= comers)
    return;
  arrive_at_cluster();
  wait_for_cluster();
  if (threadIdx.x == 0 && rank < givers)
    store_in_block((rank + 1) % TEST_CLUSTER, &shared->given, make_double2(blockIdx.x, 0), &shared->arrivals);
  if (fault != NO_WAIT)
    wait_for_arrivals(&shared->arrivals, 0);
  numbers[blockIdx.x] = shared->given.x;
}

// Copies a number through shared memory, and reads it after waiting for the copy, or without
// waiting.
static void test_copy(double2 *numbers, u32 waits) {
  DYNAMIC_SHARED(double2, copy);
  copy_meanwhile(&copy[threadIdx.x], &numbers[0]);
  end_copy_group();
  if (waits)
    wait_for_copies<0>();
  numbers[threadIdx.x + 1] = copy[threadIdx.x];
}

// Calls a kernel with arguments of its parameter types.
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
  // Number of blocks in a cluster.
  u32 cluster = 1;
};

#define CLUSTERED(NAME, BLOCKS)                                                                                        \
  { #NAME, [](void **arguments) { return bind(NAME, arguments); }, BLOCKS }
#define KERNEL(NAME) CLUSTERED(NAME, 1)

static const Kernel KERNELS[] = {
    KERNEL(linear_combination_32),     KERNEL(linear_combination_64),     KERNEL(modulus_switch_32),
    KERNEL(modulus_switch_64),         KERNEL(sample_extract_32),         KERNEL(sample_extract_64),
    KERNEL(store_rows_32),             KERNEL(store_rows_64),             KERNEL(cut_digits_32_32),
    KERNEL(cut_digits_64_32),          KERNEL(cut_digits_64_64),          KERNEL(multiply_narrow_32),
    KERNEL(multiply_narrow_64),        KERNEL(multiply_wide_32),          KERNEL(multiply_wide_64),
    KERNEL(split_key_32),              KERNEL(split_key_64),              KERNEL(transform_key_32),
    KERNEL(transform_key_64),          KERNEL(blind_rotate_32),           KERNEL(blind_rotate_64),
    KERNEL(blind_rotate_groups_32_32), KERNEL(blind_rotate_groups_64_32), KERNEL(blind_rotate_groups_64_64),
    KERNEL(transform_key_2048_64),     KERNEL(blind_rotate_2048_64),
    KERNEL(expand_rows_32),            KERNEL(expand_rows_64),
    KERNEL(blind_rotate_512_64),       KERNEL(blind_rotate_2048_few_64),
    CLUSTERED(blind_rotate_groups_2048_64, latency::BLOCKS),
    KERNEL(test_barrier),              KERNEL(test_shared),               KERNEL(test_products),
    KERNEL(test_copy),                 CLUSTERED(test_cluster, TEST_CLUSTER),
};

extern "C" int emulate(const char *name, u32 grid_x, u32 grid_y, u32 threads, u32 shared_bytes, void **arguments) {
  for (const Kernel &kernel : KERNELS)
    if (!strcmp(kernel.name, name))
      return emulator::launch({grid_x, grid_y}, kernel.cluster, threads, shared_bytes, kernel.bind(arguments));
  return emulator::UNKNOWN_KERNEL;
}
