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

#define TRTW_STRINGIFY_(x) #x
#define TRTW_STRINGIFY(x) TRTW_STRINGIFY_(x)
/// "8.6", "10.16", "11.1": for messages.
#define TRTW_TRT_VERSION_TEXT TRTW_STRINGIFY(NV_TENSORRT_MAJOR) "." TRTW_STRINGIFY(NV_TENSORRT_MINOR)

// clang-format off
#define TRTW_TRT_AT_LEAST(major, minor) \
    (NV_TENSORRT_MAJOR > (major) || (NV_TENSORRT_MAJOR == (major) && NV_TENSORRT_MINOR >= (minor)))

// Weak typing (builder precision flags, layer precisions, INT8 calibrators) ended with version 11.
#define TRTW_TRT_WEAK_TYPING            (NV_TENSORRT_MAJOR < 11)
// Networks whose types come from the graph alone; a flag in 10, the only kind in 11.
#define TRTW_TRT_STRONG_TYPING          (NV_TENSORRT_MAJOR >= 10)
#define TRTW_TRT_PROGRESS_MONITOR       (NV_TENSORRT_MAJOR >= 10)
#define TRTW_TRT_PARSER_REFITTER        (NV_TENSORRT_MAJOR >= 10)
#define TRTW_TRT_STRIP_PLAN             (NV_TENSORRT_MAJOR >= 10)
#define TRTW_TRT_WEIGHT_STREAMING       (NV_TENSORRT_MAJOR >= 10)
#define TRTW_TRT_STRICT_TIMING_CACHE    (NV_TENSORRT_MAJOR >= 10)
// 64-bit dimensions, and the data types INT64, BF16 and INT4.
#define TRTW_TRT_DIMS64                 (NV_TENSORRT_MAJOR >= 10)
// IParserError names the ONNX node; before, it gives the index alone.
#define TRTW_TRT_PARSER_NODE_NAMES      (NV_TENSORRT_MAJOR >= 10)
// getDeviceMemorySizeV2 and getDeviceMemorySizeForProfileV2.
#define TRTW_TRT_MEMORY_SIZE_V2         TRTW_TRT_AT_LEAST(10, 1)
// setWeightStreamingBudgetV2 and getWeightStreamingAutomaticBudget.
#define TRTW_TRT_WEIGHT_BUDGET          TRTW_TRT_AT_LEAST(10, 1)
// 64-bit profile values: setShapeValuesV2, getProfileTensorValuesV2.
#define TRTW_TRT_PROFILE_VALUES_V2      TRTW_TRT_AT_LEAST(10, 11)
#define TRTW_TRT_MAX_TACTICS            TRTW_TRT_AT_LEAST(10, 4)
#define TRTW_TRT_REFIT_INDIVIDUAL       TRTW_TRT_AT_LEAST(10, 2)
#define TRTW_TRT_STRICT_NANS            TRTW_TRT_AT_LEAST(10, 6)
#define TRTW_TRT_HAS_FP4                TRTW_TRT_AT_LEAST(10, 8)
#define TRTW_TRT_TILING                 TRTW_TRT_AT_LEAST(10, 8)
#define TRTW_TRT_EDITABLE_TIMING_CACHE  TRTW_TRT_AT_LEAST(10, 8)
#define TRTW_TRT_SAME_COMPUTE_CAPABILITY TRTW_TRT_AT_LEAST(10, 9)
// SerializationFlag::kINCLUDE_REFIT.
#define TRTW_TRT_KEEP_REFITTABLE        TRTW_TRT_AT_LEAST(10, 14)
#define TRTW_TRT_HAS_E8M0               TRTW_TRT_AT_LEAST(10, 12)
#define TRTW_TRT_DISTRIBUTIVE_INDEPENDENCE TRTW_TRT_AT_LEAST(10, 12)
// Outputs that share an input's memory: getAliasedInputTensor.
#define TRTW_TRT_ALIASED_OUTPUTS        TRTW_TRT_AT_LEAST(10, 15)
#define TRTW_TRT_BUILD_ROUTES           TRTW_TRT_AT_LEAST(11, 1)
// clang-format on
