// Negacyclic transforms of polynomials of N real coefficients: N/2 complex values, by all threads
// of a block.
//
// Value k is the polynomial at exp(i pi (4k + 1) / N). The other values are their conjugates.
// Coefficients j and j + N/2 form one complex number, because exp(i pi (4k + 1) / 2) = i. `roots`
// holds exp(i pi j / N) for j below 2N.
#pragma once
#include "words.h"

// Number k of the value at a place, whose bits are those of k reversed. In this order, neither
// direction has to sort its values.
__device__ inline u32 value_at(u32 place, u32 size_log2) { return __brev(place) >> (32 - (size_log2 - 1)); }

__device__ inline double2 times(double2 a, double2 b) {
  return make_double2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

__device__ inline double2 conjugate(double2 a) { return make_double2(a.x, -a.y); }

__device__ inline double2 plus(double2 a, double2 b) { return make_double2(a.x + b.x, a.y + b.y); }

// sum + a b, in four fused multiply-adds.
__device__ inline double2 plus_product(double2 sum, double2 a, double2 b) {
  return make_double2(fma(-a.y, b.y, fma(a.x, b.x, sum.x)), fma(a.y, b.x, fma(a.x, b.y, sum.y)));
}

__device__ inline double2 minus(double2 a, double2 b) { return make_double2(a.x - b.x, a.y - b.y); }

// Transforms N/2 pairs of coefficients, each times its root, into values. Begins and ends with a
// barrier.
__device__ inline void forward_transform(double2 *x, const double2 *roots, u32 size_log2) {
  u32 size = 1u << size_log2;
  for (u32 half = size / 4; half > 0; half /= 2) {
    __syncthreads();
    for (u32 pair = threadIdx.x; pair < size / 4; pair += blockDim.x) {
      u32 within = pair & (half - 1), low = 2 * pair - within;
      double2 a = x[low], b = x[low + half];
      x[low] = plus(a, b);
      x[low + half] = times(minus(a, b), roots[within * (size / half)]);
    }
  }
  __syncthreads();
}

// Transforms values back, up to a factor of N/2. Begins and ends with a barrier.
__device__ inline void inverse_transform(double2 *x, const double2 *roots, u32 size_log2) {
  u32 size = 1u << size_log2;
  for (u32 half = 1; half < size / 2; half *= 2) {
    __syncthreads();
    for (u32 pair = threadIdx.x; pair < size / 4; pair += blockDim.x) {
      u32 within = pair & (half - 1), low = 2 * pair - within;
      double2 a = x[low], b = times(x[low + half], conjugate(roots[within * (size / half)]));
      x[low] = plus(a, b);
      x[low + half] = minus(a, b);
    }
  }
  __syncthreads();
}

// The torus word nearest to a real number, which may be any number of turns away.
template <class T> __device__ inline T round_to_torus(double value) {
  const double turn = sizeof(T) == 4 ? 4294967296.0 : 18446744073709551616.0;
  double within = fma(-rint(value / turn), turn, value);
  // Half a turn exceeds a signed word. Its torus word is the one of minus half a turn.
  if (within >= turn / 2)
    within -= turn;
  return T(i64(rint(within)));
}
