// ONNX model to plan.
#pragma once

#include "trtw/build_options.hpp"
#include "trtw/shared_bytes.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace nvinfer1 {
class IBuilder;
} // namespace nvinfer1

namespace trtw {

/// Called with a phase's name, the steps done and the steps in all; false asks for cancellation. May throw, which
/// cancels as well. Calls may come from any thread.
using ProgressCallback = std::function<bool(std::string_view phase, int step, int total)>;

/// Joins timing caches with the builder of a finished build. With TensorRT 8.6 on an H200, builds that each made
/// another one for it, under a common lock, ended eleven seconds apart.
class TimingCacheMerger {
public:
    /// `device` is the one that the builder was made on.
    TimingCacheMerger(std::unique_ptr<nvinfer1::IBuilder> builder, int device);
    ~TimingCacheMerger();
    TimingCacheMerger(const TimingCacheMerger&) = delete;
    TimingCacheMerger& operator=(const TimingCacheMerger&) = delete;

    /// One cache with the entries of all; on a conflict the earlier wins. Throws UsageProblem for a cache that TensorRT
    /// rejects.
    [[nodiscard]] std::string merge(const std::vector<std::string>& caches);

private:
    std::mutex mutex_; // a builder serves one thread at a time
    std::unique_ptr<nvinfer1::IBuilder> builder_;
    int device_;
};

/// Keeps TensorRT's builder loaded, for a process that builds several engines. Where no builder is alive, making one
/// loads its kernels anew: seconds each time, and TensorRT 8.6 never gives their host memory back, up to 1.4 GB
/// (NVIDIA/TensorRT#3359).
class BuilderHold {
public:
    /// Throws ComponentMissing without TensorRT or its builder, DeviceFailure and UsageProblem without that GPU.
    explicit BuilderHold(int device = 0);
    ~BuilderHold();
    BuilderHold(const BuilderHold&) = delete;
    BuilderHold& operator=(const BuilderHold&) = delete;

    /// Releases it; calling it again does nothing.
    void close();

private:
    std::unique_ptr<nvinfer1::IBuilder> builder_;
    int device_;
};

/// A built plan and what is known of its making.
struct BuildResult {
    SharedBytes plan;
    SharedBytes timing_cache;                  ///< empty where the timing cache was disabled
    std::shared_ptr<TimingCacheMerger> merger; ///< holds the builder; null where timing_cache is empty
    std::string calibration_cache;             ///< empty without calibration
    double parse_s = 0;
    double build_s = 0;              ///< TensorRT's build alone, calibration included
    int layer_count = 0;             ///< of the network as parsed; an engine has fewer after fusion
    std::size_t skipped_tactics = 0; ///< kernels not tried for want of memory: a sign of a slower engine
    std::vector<std::string> warnings;
    std::vector<TensorDescription> inputs;
    std::vector<TensorDescription> outputs;
};

/// Parses, configures and builds; may take minutes. Phases of `progress`: "parse", then TensorRT's own (version 10 and
/// later) or "build" (version 8: 0 of 0, unknown, then 1 of 1), and "calibrate" (total 0) where batches are read.
/// Throws UsageProblem for options or models that cannot be built, ComponentMissing without TensorRT, DeviceFailure
/// where the GPU fails or its memory does not suffice, Cancelled after a refusal of `progress`, and whatever
/// `progress` or the calibration source threw.
BuildResult build_engine(const std::string& model_path, const BuildOptions& options, const ProgressCallback& progress);

} // namespace trtw
