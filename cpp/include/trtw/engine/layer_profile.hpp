// Device time by layer, as TensorRT's profiler reports it.
#pragma once

#include "trtw/engine/call.hpp"
#include "trtw/engine/plan.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trtw::engine {

struct LayerTime {
    std::string name;
    std::vector<float> milliseconds; ///< one value an iteration
};

/// Layers in execution order, over `iterations` runs after one to warm up, without a CUDA graph. Profiling puts
/// events between the layers, so that their sum exceeds the engine's own time.
/// Throws UsageProblem where the engine was built without profiling information, and as bench does.
std::vector<LayerTime> profile_layers(const std::shared_ptr<const Plan>& plan, const std::vector<Input>& inputs,
                                      int iterations, std::optional<int> profile);

} // namespace trtw::engine
