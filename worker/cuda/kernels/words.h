// Torus words and their digits, as in crypto/math. The kernels compile without any system headers.
#pragma once

using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

template <class T> constexpr u32 BITS = 8 * sizeof(T);

// Operations for which CUDA has no portable syntax. The emulator has its own versions.
#ifndef EMULATED
// The block's dynamic shared memory, whose size the launch gives.
#define DYNAMIC_SHARED(T, NAME)                                                                                        \
  extern __shared__ double2 dynamic_shared[];                                                                          \
  T *NAME = reinterpret_cast<T *>(dynamic_shared)

// A separate barrier for each part of a block, of `threads` threads.
__device__ __forceinline__ void pair_barrier(u32 part, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(part + 1), "r"(threads) : "memory");
}

// `sums += digits * key` of a warp, on tensor cores: 16 rows of 32 signed bytes times 32 rows of 8
// unsigned bytes. Four bytes form a word, the first byte lowest. As the PTX ISA defines
// mma.m16n8k32, thread 4 g + q holds
//   digits: bytes 4 q .. 4 q + 3 of row g, then of row g + 8; bytes 16 + 4 q .. of both;
//   key:    of column g rows 4 q .. 4 q + 3; then rows 16 + 4 q ..;
//   sums:   of row g columns 2 q and 2 q + 1; then these columns of row g + 8.
__device__ __forceinline__ void multiply_bytes(int (&sums)[4], u32 digits_0, u32 digits_1, u32 digits_2, u32 digits_3,
                                               u32 key_0, u32 key_1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
               : "r"(digits_0), "r"(digits_1), "r"(digits_2), "r"(digits_3), "r"(key_0), "r"(key_1));
}

// Starts an asynchronous copy to shared memory, of the value at `from[OFFSET]`.
template <u32 OFFSET = 0> __device__ __forceinline__ void copy_meanwhile(double2 *to, const double2 *from) {
  u32 shared = u32(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1 + %2], 16;" ::"r"(shared), "l"(from), "n"(OFFSET * sizeof(double2))
               : "memory");
}

// Ends a group of the thread's copies: all copies that were started since the last group.
__device__ __forceinline__ void end_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for the thread's groups of copies, apart from the last `PENDING` groups.
template <u32 PENDING> __device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Thread block clusters: blocks that run at the same time and can access each other's shared
// memory.
#define CLUSTER(BLOCKS) __cluster_dims__(BLOCKS, 1, 1)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define HAS_CLUSTERS

// The two halves of a barrier of all threads of a cluster. Stores before the first half are visible
// after the second.
__device__ __forceinline__ void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Counts the bytes that blocks of the cluster store into this block, round by round: an mbarrier in
// shared memory.
using Arrivals = u64;

// Prepares the count, before the cluster's first barrier.
__device__ __forceinline__ void prepare_arrivals(Arrivals *arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(u32(__cvta_generic_to_shared(arrivals))) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Begins a round, which ends when `bytes` bytes have arrived. One thread calls this once a round:
// after a second call, rounds would end too early. Bytes may arrive earlier, after the end of the
// last round.
__device__ __forceinline__ void expect_arrivals(Arrivals *arrivals, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(u32(__cvta_generic_to_shared(arrivals))),
               "r"(bytes)
               : "memory");
}

// Waits for the end of a round, whose bytes are visible then. `odd` is the last bit of the round's
// number. The next round must not end before every thread has waited for this one: a thread two
// rounds behind would wait forever.
__device__ __forceinline__ void wait_for_arrivals(Arrivals *arrivals, u32 odd) {
  asm volatile("{\n"
               ".reg .pred ended;\n"
               "again:\n"
               "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%0], %1;\n"
               "@!ended bra again;\n"
               "}" ::"r"(u32(__cvta_generic_to_shared(arrivals))),
               "r"(odd)
               : "memory");
}

// Stores into block `block` of the cluster, at the address that `place` has in this block. The
// bytes count as arrivals there.
__device__ __forceinline__ void store_in_block(u32 block, double2 *place, double2 value, Arrivals *arrivals) {
  u32 there, counted;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(u32(__cvta_generic_to_shared(place))), "r"(block));
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(counted)
      : "r"(u32(__cvta_generic_to_shared(arrivals))), "r"(block));
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f64 [%0], {%1, %2}, [%3];" ::"r"(there),
               "d"(value.x), "d"(value.y), "r"(counted)
               : "memory");
}
#endif
#endif

// The top `log2` bits of a word, rounded to nearest (ties up), as an integer below 2^log2.
template <class T> __device__ inline T round_to_modulus(T word, u32 log2) {
  T half = T(1) << (BITS<T> - 1 - log2);
  return T(word + half) >> (BITS<T> - log2);
}

// Decomposition of a word: `levels` digits, each below 2^base_log.
struct Gadget {
  u32 base_log, levels;
};

// `value` or `value - 2^bits`, whichever is nearer to zero; a tie goes down when `tie_down` is 1.
__device__ inline i64 balance(u64 value, u32 bits, u64 tie_down) {
  // The top bits of `value` and `value - 1` are both set if `value` exceeds half of 2^bits. At
  // exactly half, `tie_down` replaces the second bit.
  u64 go_down = (((value - 1) | (tie_down << (bits - 1))) & value) >> (bits - 1);
  return i64(value - (go_down << bits));
}

// The rounded, balanced value from which `next_digit` takes the digits.
template <class T> __device__ inline i64 round_to_digits(Gadget gadget, T word) {
  u32 kept = gadget.base_log * gadget.levels;
  u64 doubled = word >> (BITS<T> - kept - 1);
  u64 rounded = ((doubled + 1) >> 1) & (~u64(0) >> (64 - kept));
  return balance(rounded, kept, doubled & 1);
}

// Takes the least significant digit off `state`.
__device__ inline i64 next_digit(Gadget gadget, i64 &state) {
  u64 low = u64(state) & ((u64(1) << gadget.base_log) - 1);
  state >>= gadget.base_log;
  i64 digit = balance(low, gadget.base_log, u64(state >> (gadget.base_log - 1)) & 1);
  // Zero or one whole base: balancing a digit carries that amount into the next digit.
  state += (i64(low) - digit) >> gadget.base_log;
  return digit;
}
