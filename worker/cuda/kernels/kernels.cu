// All kernels, as one module.
#include "exact.cu"
#include "key.cu"
#include "key_switch.cu"
#include "masks.cu"
#include "rotation.cu"
#include "rotation_2048.cu"
