// What the TensorRT version of the headers can do. Differences between versions are named here, once.
#pragma once

#include <NvInferVersion.h>

// The three-part version as TensorRT's C entry points expect and report it: the factor of the major
// number changed from 1000 to 10000 with version 10.
#if NV_TENSORRT_MAJOR >= 10
#define TRTW_TRT_VERSION (NV_TENSORRT_MAJOR * 10000 + NV_TENSORRT_MINOR * 100 + NV_TENSORRT_PATCH)
#else
#define TRTW_TRT_VERSION (NV_TENSORRT_MAJOR * 1000 + NV_TENSORRT_MINOR * 100 + NV_TENSORRT_PATCH)
#endif

#define TRTW_TRT_AT_LEAST(major, minor)                                                                               \
    (NV_TENSORRT_MAJOR > (major) || (NV_TENSORRT_MAJOR == (major) && NV_TENSORRT_MINOR >= (minor)))

// Weak typing (builder precision flags, layer precisions, INT8 calibrators) ended with version 11.
#define TRTW_TRT_WEAK_TYPING (NV_TENSORRT_MAJOR < 11)
// Networks whose types come from the graph alone; a flag in 10, the only kind in 11.
#define TRTW_TRT_STRONG_TYPING (NV_TENSORRT_MAJOR >= 10)
#define TRTW_TRT_PROGRESS_MONITOR (NV_TENSORRT_MAJOR >= 10)
#define TRTW_TRT_PARSER_REFITTER (NV_TENSORRT_MAJOR >= 10)
#define TRTW_TRT_STRIP_PLAN (NV_TENSORRT_MAJOR >= 10)
#define TRTW_TRT_WEIGHT_STREAMING (NV_TENSORRT_MAJOR >= 10)
#define TRTW_TRT_MAX_TACTICS TRTW_TRT_AT_LEAST(10, 6)
#define TRTW_TRT_STRICT_TIMING_CACHE (NV_TENSORRT_MAJOR >= 10)
#define TRTW_TRT_EDITABLE_TIMING_CACHE TRTW_TRT_AT_LEAST(10, 10)
// 64-bit tensor dimensions, and the data types INT64 and BF16 as I/O types.
#define TRTW_TRT_DIMS64 (NV_TENSORRT_MAJOR >= 10)
// "V2" queries that replaced getDeviceMemorySize, getProfileTensorValues and setDeviceMemory.
#define TRTW_TRT_V2_QUERIES TRTW_TRT_AT_LEAST(10, 1)
