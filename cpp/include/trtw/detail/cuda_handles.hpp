// CUDA's handles as cuda_runtime_api.h declares them, so that the API needs no header of CUDA's.
#pragma once

struct CUevent_st;
struct CUstream_st;
using cudaEvent_t = CUevent_st*;
using cudaStream_t = CUstream_st*;
