// Expands keys: masks from a key's public seed, bodies as received. The masks are bytes of AES-128
// in counter mode, cut into words. The result equals that of crypto/math/src/random/mask.rs bit for
// bit.
//
// A round looks up each byte of the state in a table. Shared memory holds a copy of the table for
// each bank, so that each thread of a warp has a bank to itself. Look-ups thus never conflict,
// whatever the bytes are. A bitsliced cipher would need no look-ups. But its hundreds of
// instructions a round would take registers that a thread does not have.
#include "words.h"

namespace masks {

constexpr u32 THREADS = 256, BANKS = 32, ROUNDS = 10;
// A block generates TILE_BYTES of the stream. The block cuts out the words that lie wholly within
// these bytes, for any start of the first word: see `words_of_tile` in gpu/launches/keys.rs.
constexpr u32 BLOCK_BYTES = 16, TILE_BYTES = 8192;

// Arithmetic of the field of 256 elements, as AES defines it.
constexpr u32 doubled(u32 x) { return (x << 1) ^ (x >> 7) * 0x11b; }

constexpr u32 product(u32 x, u32 y) {
  u32 sum = 0;
  for (; y > 0; y >>= 1, x = doubled(x))
    sum ^= (y & 1) * x;
  return sum;
}

// The inverse is the power 254 = 2 + 4 + .. + 128. The inverse of 0 is 0.
constexpr u32 inverse(u32 x) {
  u32 power = x, result = 1;
  for (u32 square = 1; square < 8; square++) {
    power = product(power, power);
    result = product(result, power);
  }
  return result;
}

constexpr u32 substituted(u32 x) {
  u32 y = inverse(x), sum = y;
  for (u32 turn = 1; turn <= 4; turn++)
    sum ^= y << turn | y >> (8 - turn);
  return (sum & 255) ^ 0x63;
}

// Contribution of a byte in the state's first row to its column: its substitute times 2, 1, 1 and
// 3. For each further row, the contribution is rotated by one more byte.
struct Table {
  u32 columns[256];
};

constexpr Table make_table() {
  Table table{};
  for (u32 x = 0; x < 256; x++) {
    u32 y = substituted(x), twice = doubled(y);
    table.columns[x] = twice | y << 8 | y << 16 | (twice ^ y) << 24;
  }
  return table;
}

__device__ constexpr Table TABLE = make_table();

// Shared memory of a block.
struct Shared {
  u32 columns[256 * BANKS];
  u32 keys[4 * (ROUNDS + 1)];
  u32 stream[TILE_BYTES / 4];
};

__device__ inline u32 turned(u32 word, u32 bytes) { return word << 8 * bytes | word >> (32 - 8 * bytes); }

// The copy of the table in the thread's own bank.
struct Lookup {
  const u32 *columns;

  __device__ u32 column(u32 byte) const { return columns[(byte & 255) * BANKS]; }
  // The substitutes alone, each in the place of its byte.
  __device__ u32 substitute(u32 byte) const { return column(byte) >> 8 & 255; }
  __device__ u32 substitutes(u32 a, u32 b, u32 c, u32 d) const {
    return substitute(a) | substitute(b >> 8) << 8 | substitute(c >> 16) << 16 | substitute(d >> 24) << 24;
  }
};

// Computes the keys of all rounds from the four words of the first.
__device__ inline void expand_cipher_key(Lookup lookup, u64 low, u64 high, u32 *keys) {
  keys[0] = u32(low), keys[1] = u32(low >> 32), keys[2] = u32(high), keys[3] = u32(high >> 32);
  u32 constant = 1;
  for (u32 word = 4; word < 4 * (ROUNDS + 1); word += 4, constant = doubled(constant)) {
    u32 last = turned(keys[word - 1], 3);
    keys[word] = keys[word - 4] ^ lookup.substitutes(last, last, last, last) ^ constant;
    for (u32 next = word + 1; next < word + 4; next++)
      keys[next] = keys[next - 4] ^ keys[next - 1];
  }
}

// Encrypts the counter: one block of the stream.
__device__ inline void encrypt(Lookup lookup, const u32 *keys, u64 low, u64 high, u32 *block) {
  u32 a = u32(low) ^ keys[0], b = u32(low >> 32) ^ keys[1], c = u32(high) ^ keys[2], d = u32(high >> 32) ^ keys[3];
  auto column = [&](u32 first, u32 second, u32 third, u32 fourth) {
    return lookup.column(first) ^ turned(lookup.column(second >> 8), 1) ^ turned(lookup.column(third >> 16), 2) ^
           turned(lookup.column(fourth >> 24), 3);
  };
  for (u32 round = 1; round < ROUNDS; round++) {
    keys += 4;
    u32 new_a = column(a, b, c, d) ^ keys[0], new_b = column(b, c, d, a) ^ keys[1];
    u32 new_c = column(c, d, a, b) ^ keys[2], new_d = column(d, a, b, c) ^ keys[3];
    a = new_a, b = new_b, c = new_c, d = new_d;
  }
  keys += 4;
  block[0] = lookup.substitutes(a, b, c, d) ^ keys[0];
  block[1] = lookup.substitutes(b, c, d, a) ^ keys[1];
  block[2] = lookup.substitutes(c, d, a, b) ^ keys[2];
  block[3] = lookup.substitutes(d, a, b, c) ^ keys[3];
}

// Start of a stream: a cipher key, a counter, and a byte of that counter's block. Counters wrap at
// 2^128.
struct Stream {
  u64 key_low, key_high, counter_low, counter_high;
  u32 byte;
};

// Writes the stream's blocks that hold bytes [first, first + count) into shared memory.
__device__ inline void make_stream(Shared &shared, Stream stream, u64 first, u32 count) {
  u32 bank = threadIdx.x % BANKS;
  for (u32 word = threadIdx.x; word < 256 * BANKS; word += THREADS)
    shared.columns[word] = TABLE.columns[word / BANKS];
  __syncthreads();
  Lookup lookup{shared.columns + bank};
  if (threadIdx.x == 0)
    expand_cipher_key(lookup, stream.key_low, stream.key_high, shared.keys);
  __syncthreads();
  u32 blocks = (u32(first % BLOCK_BYTES) + count + BLOCK_BYTES - 1) / BLOCK_BYTES;
  for (u32 block = threadIdx.x; block < blocks; block += THREADS) {
    u64 low = stream.counter_low + (first / BLOCK_BYTES + block);
    u64 high = stream.counter_high + (low < stream.counter_low);
    encrypt(lookup, shared.keys, low, high, shared.stream + block * (BLOCK_BYTES / 4));
  }
  __syncthreads();
}

// Writes rows of `mask_words` masks and `body_words` bodies. The masks of all rows are consecutive
// in the stream. A word of a modulus takes as many whole bytes as the modulus has, and holds its
// value in its top bits.
template <class T>
__device__ void expand_rows(Stream stream, const T *bodies, T *rows, u32 row_count, u32 mask_words, u32 body_words,
                            u32 modulus_log2) {
  __shared__ Shared shared;
  u32 width = (modulus_log2 + 7) / 8, tile = (TILE_BYTES - (BLOCK_BYTES - 1)) / width;
  u32 masks = row_count * mask_words, first = blockIdx.x * tile, columns = mask_words + body_words;
  u32 count = masks - first < tile ? masks - first : tile;
  u64 first_byte = stream.byte + u64(first) * width;
  make_stream(shared, stream, first_byte, count * width);
  auto bytes = reinterpret_cast<const unsigned char *>(shared.stream) + first_byte % BLOCK_BYTES;
  for (u32 word = threadIdx.x; word < count; word += THREADS) {
    u64 value = 0;
    for (u32 byte = 0; byte < width; byte++)
      value |= u64(bytes[word * width + byte]) << 8 * byte;
    u32 mask = first + word, row = mask / mask_words;
    rows[u64(row) * columns + (mask - row * mask_words)] = T(value << (BITS<T> - modulus_log2));
  }
  // Every block copies a share of the bodies.
  u32 body_count = row_count * body_words;
  for (u32 body = blockIdx.x * THREADS + threadIdx.x; body < body_count; body += gridDim.x * THREADS) {
    u32 row = body / body_words;
    rows[u64(row) * columns + mask_words + (body - row * body_words)] = bodies[body];
  }
}

} // namespace masks

// The macro instantiates each kernel by its width, under the name by which the driver finds it.
#define EXPAND_ROWS_KERNEL(T, BITS_OF_T)                                                                               \
  extern "C" __global__ void __launch_bounds__(masks::THREADS)                                                         \
      expand_rows_##BITS_OF_T(u64 key_low, u64 key_high, u64 counter_low, u64 counter_high, u32 byte, const T *bodies, \
                              T *rows, u32 row_count, u32 mask_words, u32 body_words, u32 modulus_log2) {              \
    masks::Stream stream{key_low, key_high, counter_low, counter_high, byte};                                          \
    masks::expand_rows(stream, bodies, rows, row_count, mask_words, body_words, modulus_log2);                         \
  }

EXPAND_ROWS_KERNEL(u32, 32)
EXPAND_ROWS_KERNEL(u64, 64)
