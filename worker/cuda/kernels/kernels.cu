// All kernels, as one module.
#include "exact.cu"
#include "key.cu"
#include "rotation.cu"
#include "rotation_2048.cu"
#include "rotation_2048_cluster.cu"
#include "rotation_2048_few.cu"
#include "rotation_512.cu"
