// Numbers of 106 bits: sums of two doubles, the second below half of the last bit of the first.
// Products and sums use intrinsics, so that no compiler fuses two of them.
#pragma once

struct Wide {
  double high, low;
};

struct WideComplex {
  Wide re, im;
};

__device__ inline Wide normalized(double high, double low) {
  double sum = __dadd_rn(high, low);
  return {sum, __dadd_rn(low, -__dadd_rn(sum, -high))};
}

__device__ inline Wide plus(Wide a, Wide b) {
  double sum = __dadd_rn(a.high, b.high), of_b = __dadd_rn(sum, -a.high);
  double lost = __dadd_rn(__dadd_rn(a.high, -__dadd_rn(sum, -of_b)), __dadd_rn(b.high, -of_b));
  return normalized(sum, __dadd_rn(lost, __dadd_rn(a.low, b.low)));
}

__device__ inline Wide negative(Wide a) { return {-a.high, -a.low}; }

__device__ inline Wide times(Wide a, Wide b) {
  double product = __dmul_rn(a.high, b.high), lost = fma(a.high, b.high, -product);
  return normalized(product, __dadd_rn(lost, fma(a.high, b.low, __dmul_rn(a.low, b.high))));
}

__device__ inline WideComplex plus(WideComplex a, WideComplex b) { return {plus(a.re, b.re), plus(a.im, b.im)}; }

__device__ inline WideComplex minus(WideComplex a, WideComplex b) {
  return {plus(a.re, negative(b.re)), plus(a.im, negative(b.im))};
}

__device__ inline WideComplex times(WideComplex a, WideComplex b) {
  return {plus(times(a.re, b.re), negative(times(a.im, b.im))), plus(times(a.re, b.im), times(a.im, b.re))};
}
