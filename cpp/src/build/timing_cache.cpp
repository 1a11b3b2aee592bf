#include "build/timing_cache.hpp"

#include "device/scope.hpp"
#include "trt/host_memory.hpp"
#include "trt/logger.hpp"
#include "trt/version.hpp"
#include "trtw/builder.hpp"
#include "trtw/error.hpp"

#include <span>

namespace trtw {

namespace {

std::unique_ptr<nvinfer1::ITimingCache> read_cache(const nvinfer1::IBuilderConfig& config,
                                                   std::span<const std::byte> bytes) {
    return std::unique_ptr<nvinfer1::ITimingCache>{config.createTimingCache(bytes.data(), bytes.size())};
}

std::string reason(const LogCapture& capture) {
    std::string errors = capture.errors();
    if (!errors.empty()) {
        return errors;
    }
    const auto warnings = capture.warnings();
    return warnings.empty() ? "it comes from another TensorRT version or GPU, or is damaged" : warnings.back();
}

void start_empty(nvinfer1::IBuilderConfig& config, std::unique_ptr<nvinfer1::ITimingCache>& cache) {
    cache = read_cache(config, {});
    if (!cache || !config.setTimingCache(*cache, false)) {
        throw DeviceFailure("TensorRT could not create a timing cache.");
    }
}

} // namespace

std::vector<std::string> apply_timing_cache(nvinfer1::IBuilderConfig& config, const BuildOptions& options,
                                            std::unique_ptr<nvinfer1::ITimingCache>& cache) {
    if (options.disable_timing_cache) {
        config.setFlag(nvinfer1::BuilderFlag::kDISABLE_TIMING_CACHE);
        return {};
    }
#if TRTW_TRT_STRICT_TIMING_CACHE
    if (options.error_on_timing_cache_miss) {
        config.setFlag(nvinfer1::BuilderFlag::kERROR_ON_TIMING_CACHE_MISS);
    }
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_EDITABLE_TIMING_CACHE)
    if (options.editable_timing_cache) {
        config.setFlag(nvinfer1::BuilderFlag::kEDITABLE_TIMING_CACHE);
    }
#endif
    if (options.timing_cache && !options.timing_cache->empty()) {
        const LogCapture capture{logger().buffer()};
        cache = read_cache(config, *options.timing_cache);
        if (cache && config.setTimingCache(*cache, options.timing_cache_ignore_mismatch)) {
            return {};
        }
        const std::string problem = "the timing cache was rejected: " + reason(capture);
        if (options.error_on_timing_cache_miss) {
            throw UsageProblem(problem);
        }
        start_empty(config, cache);
        return {problem + "; the build started with an empty one"};
    }
    start_empty(config, cache);
    return {};
}

SharedBytes serialized_timing_cache(const nvinfer1::IBuilderConfig& config) {
    const nvinfer1::ITimingCache* cache = config.getTimingCache();
    return shared_bytes(cache != nullptr ? cache->serialize() : nullptr);
}

TimingCacheMerger::TimingCacheMerger(std::unique_ptr<nvinfer1::IBuilder> builder, int device)
    : builder_{std::move(builder)}, device_{device} {}

TimingCacheMerger::~TimingCacheMerger() = default;

std::string TimingCacheMerger::merge(const std::vector<std::string>& caches) {
    const std::lock_guard locked{mutex_};
    const DeviceScope scope{device_};
    const LogCapture capture{logger().buffer()};
    // not the build's own configuration, which refers to what is gone by now
    const std::unique_ptr<nvinfer1::IBuilderConfig> config{builder_->createBuilderConfig()};
    if (!config) {
        throw DeviceFailure("TensorRT could not create a builder configuration: " + reason(capture));
    }
    const auto merged = read_cache(*config, {});
    for (const std::string& bytes : caches) {
        const auto cache = read_cache(*config, std::as_bytes(std::span{bytes}));
        if (!merged || !cache || !merged->combine(*cache, false)) {
            throw UsageProblem("A timing cache could not be merged: " + reason(capture));
        }
    }
    const SharedBytes bytes = shared_bytes(merged ? merged->serialize() : nullptr);
    if (!bytes) {
        throw DeviceFailure("TensorRT could not serialise the timing cache: " + reason(capture));
    }
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace trtw
