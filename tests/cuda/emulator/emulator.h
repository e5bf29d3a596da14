// CUDA on a CPU, as far as the kernels need it: every thread of a block is a fiber, and what waits at a barrier lets
// others run. Blocks run one after the other. It finds wrong indices, layouts, barriers and arithmetic, not races
// between threads.
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
// A block runs on one OS thread, and no other block does meanwhile.
#define __shared__ static thread_local
#define DYNAMIC_SHARED(T, NAME) T *NAME = reinterpret_cast<T *>(emulator::block.shared.data())

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
  // More than a block may have.
  TOO_MUCH_SHARED_MEMORY = 3,
};

// Of an H100.
constexpr size_t SHARED_BYTES_MAX = 227 << 10;

// What nothing has been written to: as a double, a number that no result survives.
constexpr unsigned char POISON = 0xa5;

// Barriers of a block: the block's own, those with numbers, and one for each warp.
constexpr unsigned NUMBERED = 16, WARPS = 32, WARP = 32, BARRIERS = NUMBERED + WARPS, NOWHERE = BARRIERS;

struct Thread {
  Fiber fiber;
  unsigned waits_at = NOWHERE;
  bool ended = false;
  // What it shows the other threads of its warp.
  double shown = 0;
  unsigned shown_words[6] = {};
};

// What runs on this OS thread.
struct Block {
  std::vector<unsigned char> shared;
  // A thread stays where it is as others come.
  std::deque<Thread> threads;
  Thread *current = nullptr;
  unsigned size = 0;
  unsigned waiting[BARRIERS] = {};
  Fiber scheduler;
  const std::function<void()> *kernel = nullptr;
};
inline thread_local Block block;

// Whatever runs when a fiber comes back finds its own index.
inline void switch_to(Thread &thread, unsigned index) {
  block.current = &thread;
  threadIdx = {index, 0};
  switch_fibers(block.scheduler, thread.fiber);
}

inline void run_thread() {
  for (;;) {
    (*block.kernel)();
    block.current->ended = true;
    // The next block goes on from here.
    switch_fibers(block.current->fiber, block.scheduler);
  }
}

// Waits until `expected` threads have come to a barrier. The last one lets the others go on.
inline void wait_at(unsigned barrier, unsigned expected) {
  Thread &thread = *block.current;
  if (++block.waiting[barrier] < expected) {
    thread.waits_at = barrier;
    switch_fibers(thread.fiber, block.scheduler);
    return;
  }
  block.waiting[barrier] = 0;
  for (unsigned index = 0; index < block.size; index++)
    if (block.threads[index].waits_at == barrier)
      block.threads[index].waits_at = NOWHERE;
}

inline Outcome run_block(unsigned size) {
  block.size = size;
  while (block.threads.size() < size) {
    block.threads.emplace_back();
    block.threads.back().fiber.prepare(run_thread);
  }
  for (unsigned index = 0; index < size; index++)
    block.threads[index].ended = false;
  // Each thread runs until it waits or ends, for as long as any does.
  for (bool any = true; any;) {
    any = false;
    for (unsigned index = 0; index < size; index++) {
      Thread &thread = block.threads[index];
      if (thread.ended || thread.waits_at != NOWHERE)
        continue;
      any = true;
      switch_to(thread, index);
    }
  }
  for (unsigned index = 0; index < size; index++)
    if (!block.threads[index].ended) {
      // Those that wait never come back: others take their place.
      block.threads.clear();
      memset(block.waiting, 0, sizeof block.waiting);
      return BARRIER_MISMATCH;
    }
  return DONE;
}

// Runs a kernel on a grid. Stops at the first block that goes wrong.
inline Outcome launch(dim3 grid, unsigned threads, size_t shared_bytes, const std::function<void()> &kernel) {
  if (shared_bytes > SHARED_BYTES_MAX)
    return TOO_MUCH_SHARED_MEMORY;
  blockDim = {threads, 1};
  gridDim = grid;
  block.kernel = &kernel;
  for (unsigned y = 0; y < grid.y; y++)
    for (unsigned x = 0; x < grid.x; x++) {
      blockIdx = {x, y};
      block.shared.assign(shared_bytes, POISON);
      if (Outcome outcome = run_block(threads))
        return outcome;
    }
  return DONE;
}

} // namespace emulator

inline void __syncthreads() { emulator::wait_at(0, emulator::block.size); }

inline void __syncwarp() { emulator::wait_at(emulator::NUMBERED + threadIdx.x / emulator::WARP, emulator::WARP); }

// Numbers from 1 on are of parts.
inline void pair_barrier(unsigned part, unsigned threads) { emulator::wait_at(part + 1, threads); }

inline double __shfl_xor_sync(unsigned, double value, unsigned lanes) {
  emulator::block.current->shown = value;
  __syncwarp();
  double other = emulator::block.threads[threadIdx.x ^ lanes].shown;
  // All have looked before the next value is shown.
  __syncwarp();
  return other;
}

// Products of signed and unsigned bytes by the warp, each thread its four. Who has what is said where kernels/words.h
// has the instruction.
inline void multiply_bytes(int (&sums)[4], unsigned digits_0, unsigned digits_1, unsigned digits_2, unsigned digits_3,
                           unsigned key_0, unsigned key_1) {
  const unsigned words[6] = {digits_0, digits_1, digits_2, digits_3, key_0, key_1};
  memcpy(emulator::block.current->shown_words, words, sizeof words);
  __syncwarp();
  unsigned first = threadIdx.x / emulator::WARP * emulator::WARP, thread = threadIdx.x % emulator::WARP;
  for (unsigned place = 0; place < 4; place++) {
    unsigned row = thread / 4, column = 2 * (thread % 4) + place % 2;
    for (unsigned quarter = 0; quarter < 4; quarter++) {
      const unsigned *of_row = emulator::block.threads[first + 4 * row + quarter].shown_words;
      const unsigned *of_column = emulator::block.threads[first + 4 * column + quarter].shown_words;
      for (unsigned byte = 0; byte < 8; byte++) {
        unsigned digits = of_row[place / 2 + byte / 4 * 2], key = of_column[4 + byte / 4], shift = byte % 4 * 8;
        sums[place] += int((signed char)(digits >> shift)) * int((unsigned char)(key >> shift));
      }
    }
  }
  // All have looked before the next bytes are shown.
  __syncwarp();
}
