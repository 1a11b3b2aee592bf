// Timing caches: what an earlier build measured, for a later one.
#pragma once

#include "trtw/build_options.hpp"
#include "trtw/shared_bytes.hpp"

#include <NvInfer.h>

#include <memory>
#include <string>
#include <vector>

namespace trtw {

/// Gives the options' timing cache to the configuration. A cache that TensorRT rejects (another GPU or version, or
/// damaged bytes) is replaced by an empty one and told as a warning; in strict mode it is a UsageProblem.
/// `cache` then owns what the configuration refers to: it has to live until the engine is built and the cache is
/// serialised. It stays null where timing caches are disabled.
std::vector<std::string> apply_timing_cache(nvinfer1::IBuilderConfig& config, const BuildOptions& options,
                                            std::unique_ptr<nvinfer1::ITimingCache>& cache);

/// The configuration's timing cache after a build; empty where it has none.
SharedBytes serialized_timing_cache(const nvinfer1::IBuilderConfig& config);

} // namespace trtw
