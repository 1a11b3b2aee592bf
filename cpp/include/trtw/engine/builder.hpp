// ONNX model to plan.
#pragma once

#include "trtw/engine/build_options.hpp"
#include "trtw/engine/progress.hpp"
#include "trtw/engine/timing_cache.hpp"
#include "trtw/engine/types.hpp"

#include <NvInfer.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace trtw::engine {

/// A built plan and what is known of its making.
struct BuildResult {
    std::shared_ptr<nvinfer1::IHostMemory> plan;
    std::shared_ptr<nvinfer1::IHostMemory> timing_cache; ///< null where the timing cache was disabled
    std::shared_ptr<TimingCacheMerger> merger;           ///< holds the builder; null where timing_cache is
    std::string calibration_cache;                       ///< empty without calibration
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

/// Whether TensorRT's words tell of exhausted device memory or a failed GPU rather than of the model.
bool speaks_of_device(std::string_view log) noexcept;

} // namespace trtw::engine
