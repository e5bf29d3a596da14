// Transforms bootstrap keys into the form that blind rotations read. Each polynomial is transformed
// with 106 bits, which leaves the final rounding as the only error. In plain doubles, a third of a
// transform's noise would come from its key. The cost is small, because a key is transformed once.
#include "rotation_2048.cu"
#include "transform.h"
#include "wide.h"

// Complex numbers in two arrays: the upper halves in one, the lower halves in the other.
struct WideArray {
  double2 *high, *low;

  __device__ WideComplex get(u32 index) const {
    double2 upper = high[index], lower = low[index];
    return {{upper.x, lower.x}, {upper.y, lower.y}};
  }

  __device__ void set(u32 index, WideComplex value) const {
    high[index] = make_double2(value.re.high, value.im.high);
    low[index] = make_double2(value.re.low, value.im.low);
  }
};

// A torus word as a signed number, exactly.
__device__ inline Wide wide(u32 word) { return {double(int(word)), 0}; }
__device__ inline Wide wide(u64 word) { return normalized(double(int(word >> 32)) * 4294967296.0, double(u32(word))); }

// Replaces a polynomial by its values, in the order that forward_transform leaves. `roots` holds 2N
// upper halves, then 2N lower halves.
template <class T>
__device__ void transform_wide(const T *polynomial, WideArray x, const double2 *roots, u32 size_log2) {
  u32 size = 1u << size_log2;
  auto root = [=](u32 index) {
    double2 high = roots[index], low = roots[2 * size + index];
    return WideComplex{{high.x, low.x}, {high.y, low.y}};
  };
  for (u32 j = threadIdx.x; j < size / 2; j += blockDim.x)
    x.set(j, times(WideComplex{wide(polynomial[j]), wide(polynomial[j + size / 2])}, root(j)));
  for (u32 half = size / 4; half > 0; half /= 2) {
    __syncthreads();
    for (u32 pair = threadIdx.x; pair < size / 4; pair += blockDim.x) {
      u32 within = pair & (half - 1), low = 2 * pair - within;
      WideComplex a = x.get(low), b = x.get(low + half);
      x.set(low, plus(a, b));
      x.set(low + half, times(minus(a, b), root(within * (size / half))));
    }
  }
  __syncthreads();
}

// Block b transforms polynomial b. Upper halves stay in global memory, where the result belongs.
// Dynamic shared memory holds the N/2 lower halves.
template <class T>
__device__ void transform_key(const T *polynomials, double2 *spectra, const double2 *roots, u32 size_log2) {
  DYNAMIC_SHARED(double2, lower);
  u64 size = u64(1) << size_log2;
  WideArray x{spectra + blockIdx.x * (size / 2), lower};
  transform_wide(polynomials + blockIdx.x * size, x, roots, size_log2);
}

// Transforms a key into the order that the kernel of rotation_2048.cu reads, in units of its
// accumulator's last bit. This order interleaves the polynomials of a step, so both halves are in
// shared memory until the last write.
__device__ void transform_key_2048(const u64 *polynomials, double2 *spectra, const double2 *roots) {
  DYNAMIC_SHARED(double2, shared);
  u32 step = blockIdx.x / 4, row = blockIdx.x / 2 % 2, column = blockIdx.x % 2;
  WideArray x{shared, shared + fast::HALF};
  transform_wide(polynomials + u64(blockIdx.x) * fast::SIZE, x, roots, fast::SIZE_LOG2);
  for (u32 at = threadIdx.x; at < fast::HALF; at += blockDim.x) {
    u32 value = value_at(at, fast::SIZE_LOG2), leaf = __brev(value / fast::SIDE) >> 27;
    double2 scaled = make_double2(x.high[at].x / 4294967296.0, x.high[at].y / 4294967296.0);
    spectra[u64(step) * fast::STEP_VALUES + fast::key_place(leaf, value % fast::SIDE, row, column)] = scaled;
  }
}

// The macro instantiates each kernel by its widths, under the name by which the driver finds it. A
// block has at most KEY_THREADS_MAX threads.
constexpr u32 KEY_THREADS_MAX = 256;

#define KEY_KERNEL(T, BITS_OF_T)                                                                                       \
  extern "C" __global__ void __launch_bounds__(KEY_THREADS_MAX)                                                        \
      transform_key_##BITS_OF_T(const T *polynomials, double2 *spectra, const double2 *roots, u32 size_log2) {         \
    transform_key(polynomials, spectra, roots, size_log2);                                                             \
  }

KEY_KERNEL(u32, 32)
KEY_KERNEL(u64, 64)

extern "C" __global__ void __launch_bounds__(KEY_THREADS_MAX)
    transform_key_2048_64(const u64 *polynomials, double2 *spectra, const double2 *roots) {
  transform_key_2048(polynomials, spectra, roots);
}
