// Fibers: stacks between which one OS thread switches. The portable functions (ucontext) take two
// system calls a switch, which dominate the time of a kernel with many barriers. On x86-64 a switch
// takes a few instructions.
#pragma once
#include <cstddef>
#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

constexpr size_t STACK_BYTES = 64 << 10;

#if defined(__x86_64__)

struct Fiber {
  void *stack_pointer = nullptr;
  std::unique_ptr<char[]> stack;

  // The first switch calls `run`, which never returns.
  void prepare(void (*run)()) {
    stack.reset(new char[STACK_BYTES]);
    auto top = reinterpret_cast<size_t>(stack.get() + STACK_BYTES) & ~size_t(15);
    // The stack as a call would leave it: a return address that is never used, then `run`, then six
    // registers.
    auto words = reinterpret_cast<void **>(top) - 8;
    for (int word = 0; word < 8; word++)
      words[word] = nullptr;
    words[6] = reinterpret_cast<void *>(run);
    stack_pointer = words;
  }
};

// Saves the callee-saved registers on the current stack, and restores those of the other stack.
// Floating-point modes are equal in all fibers, so they need no saving.
__attribute__((naked, noinline)) inline void switch_stacks([[maybe_unused]] void **from,
                                                              [[maybe_unused]] void *to) {
  asm("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
      "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
      "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
}

inline void switch_fibers(Fiber &from, Fiber &to) { switch_stacks(&from.stack_pointer, to.stack_pointer); }

#else

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;

  void prepare(void (*run)()) {
    stack.reset(new char[STACK_BYTES]);
    getcontext(&context);
    context.uc_stack.ss_sp = stack.get();
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = nullptr;
    makecontext(&context, run, 0);
  }
};

inline void switch_fibers(Fiber &from, Fiber &to) { swapcontext(&from.context, &to.context); }

#endif

} // namespace emulator
