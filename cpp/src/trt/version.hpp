// What versions of TensorRT can do. Differences between them are named here, once.
//
// Those of major versions are macros: the library that is opened has the major version of the headers. Within one,
// NVIDIA appends to interfaces and enumerations, so that the headers may be older or newer than the library. What a
// minor version brought is two numbers, to be asked of the headers by `#if TRTW_IN_HEADERS(...)`, and then by has(...).
#pragma once

#include <NvInferVersion.h>

#include <string>

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
#define TRTW_IN_HEADERS(...) TRTW_TRT_AT_LEAST(__VA_ARGS__)

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
#define TRTW_TRT_MEMORY_SIZE_V2         10, 1
// setWeightStreamingBudgetV2 and getWeightStreamingAutomaticBudget.
#define TRTW_TRT_WEIGHT_BUDGET          10, 1
// 64-bit profile values: setShapeValuesV2, getProfileTensorValuesV2.
#define TRTW_TRT_PROFILE_VALUES_V2      10, 11
// BuilderFlag::kINT4; the data type is in 10.0.
#define TRTW_TRT_INT4_FLAG              10, 1
#define TRTW_TRT_MAX_TACTICS            10, 4
#define TRTW_TRT_REFIT_INDIVIDUAL       10, 2
#define TRTW_TRT_STRICT_NANS            10, 6
#define TRTW_TRT_HAS_FP4                10, 8
#define TRTW_TRT_TILING                 10, 8
#define TRTW_TRT_EDITABLE_TIMING_CACHE  10, 8
#define TRTW_TRT_SAME_COMPUTE_CAPABILITY 10, 9
// SerializationFlag::kINCLUDE_REFIT.
#define TRTW_TRT_KEEP_REFITTABLE        10, 14
#define TRTW_TRT_HAS_E8M0               10, 12
#define TRTW_TRT_DISTRIBUTIVE_INDEPENDENCE 10, 12
#define TRTW_TRT_ALIASED_PLUGIN_IO      10, 3
#define TRTW_TRT_ACTIVATION_RESIZE      10, 10
// Outputs that share an input's memory: getAliasedInputTensor.
#define TRTW_TRT_ALIASED_OUTPUTS        10, 15
#define TRTW_TRT_BUILD_ROUTES           11, 1
// clang-format on

namespace trtw {

/// Whether the headers and, once one is open, the library have what came with a version.
bool has(int major, int minor) noexcept;

/// Whose limits those are, for messages: "TensorRT 10.3", or "TensorRT 10.9 (headers of 10.3)" where a newer library is
/// used through older headers.
std::string version_in_words();

} // namespace trtw
