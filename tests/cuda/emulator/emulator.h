// CUDA on a CPU, as far as the kernels need it: every thread of a block is a fiber, and a barrier switches fibers. Blocks
// run one after the other. It finds wrong indices, layouts, barriers and arithmetic, not races between threads.
#pragma once
#include <ucontext.h>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __launch_bounds__(...)
// A block runs on one OS thread, and no other block does meanwhile.
#define __shared__ static thread_local

struct dim3 {
  unsigned x, y;
};
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {

// How a launch ended.
enum Outcome : int {
  DONE = 0,
  // Some threads wait at a barrier that others never come to.
  BARRIER_MISMATCH = 1,
};

struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  const std::function<void()> *kernel;
  unsigned index;
  bool waits = false, ended = false;
};

// What runs on this OS thread.
inline thread_local ucontext_t scheduler;
inline thread_local Fiber *current;

inline void enter() {
  (*current->kernel)();
  current->ended = true;
  swapcontext(&current->context, &scheduler);
}

inline Outcome run_block(const std::function<void()> &kernel, unsigned threads) {
  constexpr size_t STACK_BYTES = 64 << 10;
  std::vector<Fiber> fibers(threads);
  for (unsigned index = 0; index < threads; index++) {
    Fiber &fiber = fibers[index];
    fiber.stack.resize(STACK_BYTES);
    fiber.kernel = &kernel;
    fiber.index = index;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = STACK_BYTES;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enter, 0);
  }
  // From barrier to barrier: each fiber runs until it waits or ends, and all must do the same.
  for (;;) {
    unsigned waiting = 0, ended = 0;
    for (Fiber &fiber : fibers) {
      fiber.waits = false;
      current = &fiber;
      threadIdx = {fiber.index, 0};
      swapcontext(&scheduler, &fiber.context);
      waiting += fiber.waits;
      ended += fiber.ended;
    }
    if (ended == threads)
      return DONE;
    if (waiting != threads)
      return BARRIER_MISMATCH;
  }
}

// Runs a kernel on a grid. Stops at the first block that goes wrong.
inline Outcome launch(dim3 grid, unsigned threads, const std::function<void()> &body) {
  blockDim = {threads, 1};
  gridDim = grid;
  for (unsigned y = 0; y < grid.y; y++)
    for (unsigned x = 0; x < grid.x; x++) {
      blockIdx = {x, y};
      if (Outcome outcome = run_block(body, threads))
        return outcome;
    }
  return DONE;
}

} // namespace emulator

inline void __syncthreads() {
  emulator::current->waits = true;
  swapcontext(&emulator::current->context, &emulator::scheduler);
  threadIdx = {emulator::current->index, 0};
}
