// Key switch to the small key, exactly: digits of words times bytes of the key, on tensor cores. No
// other unit of a GPU multiplies as many bytes. `outputs = (0, body) - sum of digits * key`, with
// the body rounded to the output modulus. The result equals that of crypto/tfhe/src/key_switch.rs
// bit for bit.
//
// A row of the key belongs to an input word and a level, the smallest level first. The words of the
// key are stored as bytes. The order of these bytes, outermost first, is: tile of 8 columns; step
// of 64 rows; byte of the word, the lowest first; column; row. One step of a tile then is one line
// of 16 bytes for each thread of a warp, for each byte of the word. The 64 rows of a column are
// adjacent, and so are the 64 digits of a ciphertext that a step multiplies. Rows and columns that
// pad the last step and tile are zero.
#include "words.h"

namespace switching {

constexpr u32 THREADS = 256, WARP = 32;
// Rows of a step, and its lines of 16 bytes for each column; columns of a tile.
constexpr u32 STEP = 64, LINES = STEP / 16, TILE = 8;
// Ciphertexts that one instruction multiplies.
constexpr u32 ROWS = 16;

// Splits a step's words of a tile into bytes. Block (step, tile), with a thread for four rows of a
// column.
template <class S>
__device__ void split_key(const S *rows, u32 *key, u32 row_count, u32 columns, u32 first_step, u32 steps) {
  u32 first_row = blockIdx.x * STEP + threadIdx.x % 16 * 4, column = blockIdx.y * TILE + threadIdx.x / 16;
  S words[4];
  for (u32 row = 0; row < 4; row++)
    words[row] = first_row + row < row_count && column < columns ? rows[u64(first_row + row) * columns + column] : S(0);
  u32 *bytes = key + (u64(blockIdx.y) * steps + first_step + blockIdx.x) * (sizeof(S) * TILE * STEP / 4) + threadIdx.x;
  for (u32 byte = 0; byte < sizeof(S); byte++) {
    u32 four = 0;
    for (u32 row = 0; row < 4; row++)
      four |= u32(words[row] >> 8 * byte & 255) << 8 * row;
    bytes[byte * (TILE * STEP / 4)] = four;
  }
}

// Writes the digits of a ciphertext's words in the order of the key's rows, and the body to its
// place in the output. Block (lane, strip), with a thread for each word.
template <class T, class S>
__device__ void cut_digits(const T *inputs, signed char *digits, S *outputs, u32 input_dimension, u32 output_dimension,
                           Gadget gadget, u32 modulus_log2, u32 steps) {
  const T *input = inputs + blockIdx.x * (u64(input_dimension) + 1);
  signed char *row = digits + blockIdx.x * (u64(steps) * STEP);
  u32 word = blockIdx.y * blockDim.x + threadIdx.x;
  if (word < input_dimension) {
    i64 state = round_to_digits(gadget, input[word]);
    for (u32 level = 0; level < gadget.levels; level++)
      row[word * gadget.levels + level] = (signed char)(next_digit(gadget, state));
  }
  if (word == input_dimension) {
    T body = input[word];
    S &output = outputs[blockIdx.x * (u64(output_dimension) + 1) + output_dimension];
    output = modulus_log2 == BITS<T> ? S(body) : S(round_to_modulus(body, modulus_log2)) << (BITS<S> - modulus_log2);
    for (u32 byte = input_dimension * gadget.levels; byte < steps * STEP; byte++)
      row[byte] = 0;
  }
}

// Division of a block's work among its warps: groups of 16 ciphertexts, tiles, and steps in turns.
template <u32 SIXTEENS_, u32 LANE_WARPS_, u32 TILE_WARPS_, u32 STEP_WARPS_> struct Arrangement {
  static constexpr u32 SIXTEENS = SIXTEENS_, LANE_WARPS = LANE_WARPS_, TILE_WARPS = TILE_WARPS_;
  static constexpr u32 STEP_WARPS = STEP_WARPS_;
  static_assert(LANE_WARPS * TILE_WARPS * STEP_WARPS * WARP == THREADS, "something to do for each warp");
  static_assert(STEP_WARPS == 1 || STEP_WARPS * WARP == THREADS, "sums of all warps, or of none");
};
// For few ciphertexts: reading the key takes most of the time, so all warps read different steps at
// once.
using Narrow = Arrangement<1, 1, 1, 8>;
// For many ciphertexts: each byte of the key serves 64 of them from registers, and 128 from the
// caches.
using Wide = Arrangement<4, 2, 4, 1>;

// Sums of a warp for SIXTEENS groups of 16 ciphertexts, a tile, and each byte of a word. A thread
// holds four sums of each group and byte.
template <class S, u32 SIXTEENS> struct Sums {
  int of[SIXTEENS][sizeof(S)][4];
};

// Adds a step's products. `digits` holds the lines of the thread's ciphertexts: in each group of
// sixteen, one of the first eight and one of the last eight.
template <class S, u32 SIXTEENS>
__device__ __forceinline__ void add_step(Sums<S, SIXTEENS> &sums, const uint4 (&digits)[SIXTEENS][2],
                                         const uint4 *key) {
#pragma unroll
  for (u32 byte = 0; byte < sizeof(S); byte++) {
    uint4 of_key = key[byte * WARP];
#pragma unroll
    for (u32 sixteen = 0; sixteen < SIXTEENS; sixteen++) {
      uint4 upper = digits[sixteen][0], lower = digits[sixteen][1];
      int(&of)[4] = sums.of[sixteen][byte];
      multiply_bytes(of, upper.x, lower.x, upper.y, lower.y, of_key.x, of_key.y);
      multiply_bytes(of, upper.z, lower.z, upper.w, lower.w, of_key.z, of_key.w);
    }
  }
}

// Combines the sums of a word's bytes into the word.
template <class S, u32 SIXTEENS>
__device__ __forceinline__ S put_together(const Sums<S, SIXTEENS> &sums, u32 sixteen, u32 place) {
  S word = 0;
#pragma unroll
  for (u32 byte = 0; byte < sizeof(S); byte++)
    word += S(i64(sums.of[sixteen][byte][place])) << 8 * byte;
  return word;
}

// Sum of the parts of all warps, for the first warp.
template <class S> __device__ S of_all_warps(S part) {
  __shared__ S parts[THREADS];
  parts[threadIdx.x] = part;
  __syncthreads();
  S sum = 0;
  for (u32 other = threadIdx.x % WARP; other < THREADS; other += WARP)
    sum += parts[other];
  // Every thread reads the parts before the next call overwrites them.
  __syncthreads();
  return sum;
}

// Block (tiles, lanes). Warps beyond the last ciphertext or tile compute the last one's result
// again, and write nothing.
template <class S, class Arrangement>
__device__ void multiply(const uint4 *digits, const uint4 *key, S *outputs, u32 lanes, u32 columns, u32 steps) {
  constexpr u32 SIXTEENS = Arrangement::SIXTEENS, STEP_WARPS = Arrangement::STEP_WARPS;
  u32 thread = threadIdx.x % WARP, warp = threadIdx.x / WARP, group = thread / 4, quarter = thread % 4;
  u32 step_warp = warp % STEP_WARPS, others = warp / STEP_WARPS;
  u32 tile = blockIdx.x * Arrangement::TILE_WARPS + others % Arrangement::TILE_WARPS, last_tile = (columns - 1) / TILE;
  u32 lane = (blockIdx.y * Arrangement::LANE_WARPS + others / Arrangement::TILE_WARPS) * (SIXTEENS * ROWS) + group;
  const uint4 *of_tile = key + u64(tile < last_tile ? tile : last_tile) * steps * (sizeof(S) * WARP) + thread;
  const uint4 *of_lane[SIXTEENS][2];
#pragma unroll
  for (u32 eight = 0; eight < 2 * SIXTEENS; eight++) {
    u32 own = lane + 8 * eight;
    of_lane[eight / 2][eight % 2] = digits + u64(own < lanes ? own : lanes - 1) * steps * LINES + quarter;
  }
  Sums<S, SIXTEENS> sums = {};
  for (u32 step = step_warp; step < steps; step += STEP_WARPS) {
    uint4 lines[SIXTEENS][2];
#pragma unroll
    for (u32 eight = 0; eight < 2 * SIXTEENS; eight++)
      lines[eight / 2][eight % 2] = of_lane[eight / 2][eight % 2][step * LINES];
    add_step(sums, lines, of_tile + u64(step) * (sizeof(S) * WARP));
  }
#pragma unroll
  for (u32 place = 0; place < 4 * SIXTEENS; place++) {
    S word = put_together(sums, place / 4, place % 4);
    if constexpr (STEP_WARPS > 1)
      word = of_all_warps(word);
    u32 own = lane + place / 4 * ROWS + place % 4 / 2 * 8, column = tile * TILE + 2 * quarter + place % 2;
    if (step_warp > 0 || own >= lanes || column >= columns)
      continue;
    S &output = outputs[own * u64(columns) + column];
    output = (column == columns - 1 ? output : S(0)) - word;
  }
}

} // namespace switching

// The macros instantiate each kernel by its widths, under the name by which the driver finds it.
#define CUT_DIGITS_KERNEL(T, S, NAME)                                                                                  \
  extern "C" __global__ void NAME(const T *inputs, signed char *digits, S *outputs, u32 input_dimension,               \
                                  u32 output_dimension, u32 base_log, u32 levels, u32 modulus_log2, u32 steps) {       \
    switching::cut_digits(inputs, digits, outputs, input_dimension, output_dimension, Gadget{base_log, levels},        \
                          modulus_log2, steps);                                                                        \
  }

#define MULTIPLY_KERNEL(S, ARRANGEMENT, NAME)                                                                          \
  extern "C" __global__ void __launch_bounds__(switching::THREADS)                                                     \
      NAME(const uint4 *digits, const uint4 *key, S *outputs, u32 lanes, u32 columns, u32 steps) {                     \
    switching::multiply<S, switching::ARRANGEMENT>(digits, key, outputs, lanes, columns, steps);                       \
  }

#define SPLIT_KEY_KERNEL(S, NAME)                                                                                      \
  extern "C" __global__ void NAME(const S *rows, u32 *key, u32 row_count, u32 columns, u32 first_step, u32 steps) {    \
    switching::split_key(rows, key, row_count, columns, first_step, steps);                                            \
  }

CUT_DIGITS_KERNEL(u32, u32, cut_digits_32_32)
CUT_DIGITS_KERNEL(u64, u32, cut_digits_64_32)
CUT_DIGITS_KERNEL(u64, u64, cut_digits_64_64)
MULTIPLY_KERNEL(u32, Narrow, multiply_narrow_32)
MULTIPLY_KERNEL(u64, Narrow, multiply_narrow_64)
MULTIPLY_KERNEL(u32, Wide, multiply_wide_32)
MULTIPLY_KERNEL(u64, Wide, multiply_wide_64)
SPLIT_KEY_KERNEL(u32, split_key_32)
SPLIT_KEY_KERNEL(u64, split_key_64)
