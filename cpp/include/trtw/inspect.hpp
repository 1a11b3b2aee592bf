// What an engine is made of.
#pragma once

#include "trtw/plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trtw {

struct EngineDescription {
    std::string name;
    std::string tensorrt_version; ///< of the library that read the plan
    int layer_count = 0;          ///< after fusion
    int profile_count = 0;
    std::size_t device_memory_bytes = 0; ///< scratch memory of one execution context, for any profile
    int aux_stream_count = 0;
    bool refittable = false;
    std::string hardware_compatibility;
    std::string profiling_verbosity;
    std::string engine_capability;
    std::vector<std::string> tactic_sources;             ///< those that the builder was allowed
    std::optional<std::int64_t> streamable_weight_bytes; ///< TensorRT 10 and later
    std::string layers_json;                             ///< IEngineInspector's own JSON
};

/// Throws DeviceFailure where TensorRT cannot make an inspector.
EngineDescription inspect(const Plan& plan);

} // namespace trtw
