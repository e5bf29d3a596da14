// CUDA on a CPU, as far as the kernels need it. Every thread of a block is a fiber, and a thread
// that waits at a barrier lets others run. Blocks run one after the other, apart from those of a
// cluster, which run together. The emulator finds wrong indices, layouts, barriers and arithmetic,
// but not races between threads.
#pragma once
#include "fiber.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define EMULATED
// A block runs on one OS thread, and no other block runs there meanwhile, apart from those of a
// cluster. Blocks of a cluster would share static variables, so kernels for clusters use dynamic
// shared memory only.
#define __shared__ static thread_local
#define DYNAMIC_SHARED(T, NAME) T *NAME = reinterpret_cast<T *>(emulator::running.current->block->shared.data())
#define CLUSTER(BLOCKS)
#define HAS_CLUSTERS

struct dim3 {
  unsigned x, y;
};
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) double2 {
  double x, y;
};
inline double2 make_double2(double x, double y) { return {x, y}; }

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline unsigned __brev(unsigned word) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; bit++)
    reversed |= (word >> bit & 1) << (31 - bit);
  return reversed;
}

inline int __clz(unsigned word) { return word ? __builtin_clz(word) : 32; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline long long __double2ll_rn(double value) { return llrint(value); }
inline double __hiloint2double(int high, int low) {
  unsigned long long bits = (unsigned long long)(unsigned)high << 32 | (unsigned)low;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

using std::fma;
using std::rint;

namespace emulator {

// Outcome of a launch.
enum Outcome : int {
  DONE = 0,
  // Some threads wait at a barrier that other threads never reach.
  BARRIER_MISMATCH = 1,
  UNKNOWN_KERNEL = 2,
  // The number of the grid's blocks is no multiple of the cluster size.
  PART_OF_A_CLUSTER = 3,
  // A thread used a count of arrivals in a way that a GPU does not define.
  BAD_ARRIVALS = 4,
};

// Value of bytes to which nothing has been written. As a double, it makes any result wrong.
constexpr unsigned char POISON = 0xa5;

// Barriers of a block: the block's own, the numbered ones, and those of the warps. A warp has a
// barrier for each lane at which the barrier's range of lanes may begin.
constexpr unsigned NUMBERED = 16, WARPS = 32, WARP = 32, BARRIERS = NUMBERED + WARPS * WARP;
// Further values of `waits_at`: the thread does not wait, waits for its cluster, or for bytes that
// other blocks store.
constexpr unsigned NOWHERE = BARRIERS, CLUSTER_BARRIER = BARRIERS + 1, ARRIVALS = BARRIERS + 2;

// Values that blocks store into a block, round by round. A place is poisoned when a store to it
// begins, and gets its value when the round ends. So a store over a value that is still to be read
// is found, and so is a thread that reads without having waited.
struct Round {
  // Bytes of the current round, once a thread expects them.
  unsigned expected = 0;
  unsigned ended = 0;
  std::vector<std::pair<double2 *, double2>> arrived;
};

struct Block {
  // Index of the block in the grid, and index of its first thread in the cluster.
  unsigned index = 0, first_thread = 0;
  std::vector<unsigned char> shared;
  unsigned waiting[BARRIERS] = {};
  // Rounds by the place of their count in shared memory.
  std::map<size_t, Round> rounds;

  size_t place_of(const void *address) const { return static_cast<const unsigned char *>(address) - shared.data(); }
};

struct Thread {
  Fiber fiber;
  Block *block = nullptr;
  // Index of the thread in its block.
  unsigned index = 0;
  unsigned waits_at = NOWHERE;
  // Number of cluster barriers that were complete when the thread last arrived at one.
  unsigned arrived_after = 0;
  bool ended = false;
  // Values that the thread shows the other threads of its warp.
  double shown = 0;
  unsigned shown_words[6] = {};
  // Destinations and sources of the thread's asynchronous copies, by groups. The last group is not
  // ended.
  std::deque<std::vector<std::pair<double2 *, const double2 *>>> copies;
};

// The blocks that run on this OS thread: those of a cluster, or usually a single block.
struct Running {
  std::deque<Block> blocks;
  // A deque, so that a thread stays at its address when others are added. Threads of a block are
  // adjacent.
  std::deque<Thread> threads;
  Thread *current = nullptr;
  // Threads of a block, and of all blocks.
  unsigned block_size = 0, size = 0;
  unsigned arrived = 0, cluster_barriers = 0;
  // A count of arrivals was not prepared, or expected twice in a round.
  bool has_bad_arrivals = false;
  Fiber scheduler;
  const std::function<void()> *kernel = nullptr;
};
inline thread_local Running running;

// Switches to a thread, and sets the indices that code reads when its fiber resumes.
inline void switch_to(Thread &thread) {
  running.current = &thread;
  threadIdx = {thread.index, 0};
  blockIdx.x = thread.block->index;
  switch_fibers(running.scheduler, thread.fiber);
}

inline void run_thread() {
  for (;;) {
    (*running.kernel)();
    running.current->ended = true;
    // The fiber resumes here for a thread of the next block.
    switch_fibers(running.current->fiber, running.scheduler);
  }
}

inline void wait(unsigned barrier) {
  running.current->waits_at = barrier;
  switch_fibers(running.current->fiber, running.scheduler);
}

// Waits until `expected` threads have reached a barrier of the block. The last thread releases the
// others.
inline void wait_at(unsigned barrier, unsigned expected) {
  Block *block = running.current->block;
  if (++block->waiting[barrier] < expected)
    return wait(barrier);
  block->waiting[barrier] = 0;
  for (unsigned index = 0; index < running.size; index++)
    if (Thread &thread = running.threads[index]; thread.block == block && thread.waits_at == barrier)
      thread.waits_at = NOWHERE;
}

// Releases all threads that wait at a barrier of their cluster, or for a round.
inline void release(unsigned barrier) {
  for (unsigned index = 0; index < running.size; index++)
    if (running.threads[index].waits_at == barrier)
      running.threads[index].waits_at = NOWHERE;
}

// Prepares a fiber for each thread of `blocks` blocks.
inline void prepare(unsigned blocks, unsigned block_size, unsigned first, size_t shared_bytes) {
  running.block_size = block_size;
  running.size = blocks * block_size;
  running.has_bad_arrivals = false;
  running.blocks.resize(blocks);
  for (unsigned rank = 0; rank < blocks; rank++) {
    running.blocks[rank].index = first + rank;
    running.blocks[rank].first_thread = rank * block_size;
    running.blocks[rank].shared.assign(shared_bytes, POISON);
    running.blocks[rank].rounds.clear();
  }
  while (running.threads.size() < running.size) {
    running.threads.emplace_back();
    running.threads.back().fiber.prepare(run_thread);
  }
  for (unsigned index = 0; index < running.size; index++) {
    Thread &thread = running.threads[index];
    thread.block = &running.blocks[index / block_size];
    thread.index = index % block_size;
    thread.ended = false;
    thread.copies.assign(1, {});
  }
}

inline Outcome run_blocks(unsigned blocks, unsigned block_size, unsigned first, size_t shared_bytes) {
  prepare(blocks, block_size, first, shared_bytes);
  // Each thread runs until it waits or ends. The loop ends once no thread can run.
  for (bool any = true; any;) {
    any = false;
    for (unsigned index = 0; index < running.size; index++) {
      Thread &thread = running.threads[index];
      if (thread.ended || thread.waits_at != NOWHERE)
        continue;
      any = true;
      switch_to(thread);
    }
  }
  for (unsigned index = 0; index < running.size; index++)
    if (!running.threads[index].ended) {
      // The waiting fibers never resume, so they are replaced by new ones.
      running.threads.clear();
      running.blocks.clear();
      running.arrived = 0;
      return BARRIER_MISMATCH;
    }
  for (const Block &block : running.blocks)
    for (const auto &[place, round] : block.rounds)
      // The block ended before these values arrived.
      running.has_bad_arrivals |= !round.arrived.empty();
  return running.has_bad_arrivals ? BAD_ARRIVALS : DONE;
}

// Runs a kernel on a grid, `cluster` blocks at a time. Stops at the first failure.
inline Outcome launch(dim3 grid, unsigned cluster, unsigned threads, size_t shared_bytes,
                      const std::function<void()> &kernel) {
  if (grid.x % cluster)
    return PART_OF_A_CLUSTER;
  blockDim = {threads, 1};
  gridDim = grid;
  running.kernel = &kernel;
  for (unsigned y = 0; y < grid.y; y++)
    for (unsigned x = 0; x < grid.x; x += cluster) {
      blockIdx.y = y;
      if (Outcome outcome = run_blocks(cluster, threads, x, shared_bytes))
        return outcome;
    }
  return DONE;
}

} // namespace emulator

inline void __syncthreads() { emulator::wait_at(0, emulator::running.block_size); }

// A barrier of the lanes in the mask, which must be adjacent.
inline void __syncwarp(unsigned lanes = ~0u) {
  unsigned first = threadIdx.x / emulator::WARP * emulator::WARP + __builtin_ctz(lanes);
  emulator::wait_at(emulator::NUMBERED + first, __builtin_popcount(lanes));
}

// Numbers from 1 on belong to parts of a block.
inline void pair_barrier(unsigned part, unsigned threads) { emulator::wait_at(part + 1, threads); }

inline double __shfl_xor_sync(unsigned, double value, unsigned lanes) {
  emulator::Thread *own = emulator::running.current;
  own->shown = value;
  __syncwarp();
  double other = emulator::running.threads[own->block->first_thread + (threadIdx.x ^ lanes)].shown;
  // Every thread reads the shown value before the next one replaces it.
  __syncwarp();
  return other;
}

// Products of signed and unsigned bytes by a warp, with four sums for each thread. kernels/words.h
// describes which thread holds which bytes.
inline void multiply_bytes(int (&sums)[4], unsigned digits_0, unsigned digits_1, unsigned digits_2, unsigned digits_3,
                           unsigned key_0, unsigned key_1) {
  const unsigned words[6] = {digits_0, digits_1, digits_2, digits_3, key_0, key_1};
  emulator::Thread *own = emulator::running.current;
  memcpy(own->shown_words, words, sizeof words);
  __syncwarp();
  unsigned thread = threadIdx.x % emulator::WARP, first = own->block->first_thread + threadIdx.x - thread;
  for (unsigned place = 0; place < 4; place++) {
    unsigned row = thread / 4, column = 2 * (thread % 4) + place % 2;
    for (unsigned quarter = 0; quarter < 4; quarter++) {
      const unsigned *of_row = emulator::running.threads[first + 4 * row + quarter].shown_words;
      const unsigned *of_column = emulator::running.threads[first + 4 * column + quarter].shown_words;
      for (unsigned byte = 0; byte < 8; byte++) {
        unsigned digits = of_row[place / 2 + byte / 4 * 2], key = of_column[4 + byte / 4], shift = byte % 4 * 8;
        sums[place] += int((signed char)(digits >> shift)) * int((unsigned char)(key >> shift));
      }
    }
  }
  // Every thread reads the shown bytes before the next ones replace them.
  __syncwarp();
}

// Poisons the place at once and copies as late as possible. So a copy over a value that is still to
// be read is found, and so is a thread that reads without having waited.
template <unsigned OFFSET = 0> inline void copy_meanwhile(double2 *to, const double2 *from) {
  memset(to, emulator::POISON, sizeof *to);
  emulator::running.current->copies.back().push_back({to, from + OFFSET});
}

inline void end_copy_group() { emulator::running.current->copies.emplace_back(); }

template <unsigned PENDING> inline void wait_for_copies() {
  auto &groups = emulator::running.current->copies;
  for (; groups.size() > PENDING + 1; groups.pop_front())
    for (auto [to, from] : groups.front())
      *to = *from;
}

// The last thread to arrive releases the waiting threads.
inline void arrive_at_cluster() {
  emulator::Running &running = emulator::running;
  running.current->arrived_after = running.cluster_barriers;
  if (++running.arrived < running.size)
    return;
  running.arrived = 0;
  running.cluster_barriers++;
  emulator::release(emulator::CLUSTER_BARRIER);
}

inline void wait_for_cluster() {
  if (emulator::running.current->arrived_after == emulator::running.cluster_barriers)
    emulator::wait(emulator::CLUSTER_BARRIER);
}

namespace emulator {

// The count at a place of a block's shared memory.
inline Round &prepared(Block &block, size_t place) {
  running.has_bad_arrivals |= !block.rounds.count(place);
  return block.rounds[place];
}

// Ends a round if all its bytes have arrived.
inline void end_if_complete(Round &round) {
  if (round.expected == 0 || round.arrived.size() * sizeof(double2) != round.expected)
    return;
  for (auto [place, value] : round.arrived)
    *place = value;
  round.arrived.clear();
  round.expected = 0;
  round.ended++;
  release(ARRIVALS);
}

} // namespace emulator

using Arrivals = unsigned long long;

inline void prepare_arrivals(Arrivals *arrivals) {
  emulator::Block *block = emulator::running.current->block;
  block->rounds[block->place_of(arrivals)] = {};
}

inline void expect_arrivals(Arrivals *arrivals, unsigned bytes) {
  emulator::Block *block = emulator::running.current->block;
  emulator::Round &round = emulator::prepared(*block, block->place_of(arrivals));
  emulator::running.has_bad_arrivals |= round.expected != 0;
  round.expected = bytes;
  emulator::end_if_complete(round);
}

inline void wait_for_arrivals(Arrivals *arrivals, unsigned odd) {
  emulator::Block *block = emulator::running.current->block;
  while ((emulator::prepared(*block, block->place_of(arrivals)).ended & 1) == odd)
    emulator::wait(emulator::ARRIVALS);
}

inline void store_in_block(unsigned rank, double2 *place, double2 value, Arrivals *arrivals) {
  emulator::Block *own = emulator::running.current->block, *block = &emulator::running.blocks[rank];
  auto *there = reinterpret_cast<double2 *>(block->shared.data() + own->place_of(place));
  emulator::Round &round = emulator::prepared(*block, own->place_of(arrivals));
  memset(there, emulator::POISON, sizeof *there);
  round.arrived.push_back({there, value});
  emulator::end_if_complete(round);
}
