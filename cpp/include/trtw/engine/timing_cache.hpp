// Timing caches: what an earlier build measured, for a later one.
#pragma once

#include "trtw/engine/build_options.hpp"

#include <NvInfer.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace trtw::engine {

/// Gives the options' timing cache to the configuration. A cache that TensorRT rejects (another GPU or version, or
/// damaged bytes) is replaced by an empty one and told as a warning; in strict mode it is a UsageProblem.
/// `cache` then owns what the configuration refers to: it has to live until the engine is built and the cache is
/// serialised. It stays null where timing caches are disabled.
std::vector<std::string> apply_timing_cache(nvinfer1::IBuilderConfig& config, const BuildOptions& options,
                                            std::unique_ptr<nvinfer1::ITimingCache>& cache);

/// The configuration's timing cache after a build; null where it has none.
std::unique_ptr<nvinfer1::IHostMemory> serialized_timing_cache(const nvinfer1::IBuilderConfig& config);

/// Joins timing caches with the builder of a finished build. With TensorRT 8.6 on an H200, builds that each made
/// another one for it, under a common lock, ended eleven seconds apart.
class TimingCacheMerger {
public:
    /// `device` is the one that the builder was made on.
    TimingCacheMerger(std::unique_ptr<nvinfer1::IBuilder> builder, int device)
        : builder_{std::move(builder)}, device_{device} {}

    /// One cache with the entries of all; on a conflict the earlier wins. Throws UsageProblem for a cache that TensorRT
    /// rejects.
    [[nodiscard]] std::string merge(const std::vector<std::string>& caches);

private:
    std::mutex mutex_; // a builder serves one thread at a time
    std::unique_ptr<nvinfer1::IBuilder> builder_;
    int device_;
};

} // namespace trtw::engine
