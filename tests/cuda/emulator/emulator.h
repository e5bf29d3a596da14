// CUDA on a CPU, as far as the kernels need it: every thread of a block is a fiber, and what waits at a barrier lets
// others run. Blocks run one after the other, but for those of a cluster, which run together. It finds wrong indices,
// layouts, barriers and arithmetic, not races between threads.
#pragma once
#include "fiber.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <deque>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define EMULATED
// A block runs on one OS thread, and no other block does meanwhile. Blocks of clusters share what is dynamic only.
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

// How a launch ended.
enum Outcome : int {
  DONE = 0,
  // Some threads wait at a barrier that others never come to.
  BARRIER_MISMATCH = 1,
  UNKNOWN_KERNEL = 2,
  // The grid's blocks are not whole clusters.
  PART_OF_A_CLUSTER = 3,
};

// What nothing has been written to: as a double, a number that no result survives.
constexpr unsigned char POISON = 0xa5;

// Barriers of a block: the block's own, those with numbers, and some for each warp, one at each lane that the barrier's
// lanes may begin with.
constexpr unsigned NUMBERED = 16, WARPS = 32, WARP = 32, BARRIERS = NUMBERED + WARPS * WARP;
// Where a thread waits else: nowhere, or for its cluster.
constexpr unsigned NOWHERE = BARRIERS, CLUSTER_BARRIER = BARRIERS + 1;

struct Block {
  // Of the grid's, and its first thread of the cluster's.
  unsigned index = 0, first_thread = 0;
  std::vector<unsigned char> shared;
  unsigned waiting[BARRIERS] = {};
};

struct Thread {
  Fiber fiber;
  Block *block = nullptr;
  // Of its block's.
  unsigned index = 0;
  unsigned waits_at = NOWHERE;
  // Barriers of its cluster that had been reached by all when it last arrived at one.
  unsigned arrived_after = 0;
  bool ended = false;
  // What it shows the other threads of its warp.
  double shown = 0;
  unsigned shown_words[6] = {};
  // To where, and from where, it copies meanwhile.
  std::vector<std::pair<double2 *, const double2 *>> copies;
};

// What runs on this OS thread: the blocks of a cluster, most often one.
struct Running {
  std::deque<Block> blocks;
  // A thread stays where it is as others come. Those of a block follow each other.
  std::deque<Thread> threads;
  Thread *current = nullptr;
  // Threads of a block, and of all blocks together.
  unsigned block_size = 0, size = 0;
  unsigned arrived = 0, cluster_barriers = 0;
  Fiber scheduler;
  const std::function<void()> *kernel = nullptr;
};
inline thread_local Running running;

// Whatever runs when a fiber comes back finds its own index.
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
    // The next block goes on from here.
    switch_fibers(running.current->fiber, running.scheduler);
  }
}

inline void wait(unsigned barrier) {
  running.current->waits_at = barrier;
  switch_fibers(running.current->fiber, running.scheduler);
}

// Waits until `expected` threads have come to a barrier of the block. The last one lets the others go on.
inline void wait_at(unsigned barrier, unsigned expected) {
  Block *block = running.current->block;
  if (++block->waiting[barrier] < expected)
    return wait(barrier);
  block->waiting[barrier] = 0;
  for (unsigned index = 0; index < running.size; index++)
    if (Thread &thread = running.threads[index]; thread.block == block && thread.waits_at == barrier)
      thread.waits_at = NOWHERE;
}

// Fibers for each thread of so many blocks, each to begin.
inline void prepare(unsigned blocks, unsigned block_size, unsigned first, size_t shared_bytes) {
  running.block_size = block_size;
  running.size = blocks * block_size;
  running.blocks.resize(blocks);
  for (unsigned rank = 0; rank < blocks; rank++) {
    running.blocks[rank].index = first + rank;
    running.blocks[rank].first_thread = rank * block_size;
    running.blocks[rank].shared.assign(shared_bytes, POISON);
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
    thread.copies.clear();
  }
}

inline Outcome run_blocks(unsigned blocks, unsigned block_size, unsigned first, size_t shared_bytes) {
  prepare(blocks, block_size, first, shared_bytes);
  // Each thread runs until it waits or ends, for as long as any does.
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
      // Those that wait never come back: others take their place.
      running.threads.clear();
      running.blocks.clear();
      running.arrived = 0;
      return BARRIER_MISMATCH;
    }
  return DONE;
}

// Runs a kernel on a grid, so many blocks together. Stops at the first that goes wrong.
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

// Of the lanes that the mask names, which follow each other.
inline void __syncwarp(unsigned lanes = ~0u) {
  unsigned first = threadIdx.x / emulator::WARP * emulator::WARP + __builtin_ctz(lanes);
  emulator::wait_at(emulator::NUMBERED + first, __builtin_popcount(lanes));
}

// Numbers from 1 on are of parts.
inline void pair_barrier(unsigned part, unsigned threads) { emulator::wait_at(part + 1, threads); }

inline double __shfl_xor_sync(unsigned, double value, unsigned lanes) {
  emulator::Thread *own = emulator::running.current;
  own->shown = value;
  __syncwarp();
  double other = emulator::running.threads[own->block->first_thread + (threadIdx.x ^ lanes)].shown;
  // All have looked before the next value is shown.
  __syncwarp();
  return other;
}

// Products of signed and unsigned bytes by the warp, each thread its four. Who has what is said where kernels/words.h
// has the instruction.
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
  // All have looked before the next bytes are shown.
  __syncwarp();
}

// As late as can be: nobody reads the copy who has not waited for it.
inline void copy_meanwhile(double2 *to, const double2 *from) {
  emulator::running.current->copies.push_back({to, from});
}

inline void wait_for_copies() {
  for (auto [to, from] : emulator::running.current->copies)
    *to = *from;
  emulator::running.current->copies.clear();
}

// The last thread that arrives lets those go on that wait.
inline void arrive_at_cluster() {
  emulator::Running &running = emulator::running;
  running.current->arrived_after = running.cluster_barriers;
  if (++running.arrived < running.size)
    return;
  running.arrived = 0;
  running.cluster_barriers++;
  for (unsigned index = 0; index < running.size; index++)
    if (running.threads[index].waits_at == emulator::CLUSTER_BARRIER)
      running.threads[index].waits_at = emulator::NOWHERE;
}

inline void wait_for_cluster() {
  if (emulator::running.current->arrived_after == emulator::running.cluster_barriers)
    emulator::wait(emulator::CLUSTER_BARRIER);
}

inline void store_in_block(unsigned block, double2 *place, double2 value) {
  emulator::Running &running = emulator::running;
  auto offset = reinterpret_cast<unsigned char *>(place) - running.current->block->shared.data();
  *reinterpret_cast<double2 *>(running.blocks[block].shared.data() + offset) = value;
}
