// For functions that CPU and GPU share, so that both do the same.
#pragma once

#ifdef __CUDACC__
#define TRTW_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TRTW_HOST_DEVICE inline
#endif
