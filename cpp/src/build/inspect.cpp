#include "trtw/inspect.hpp"

#include "build/builder_config.hpp"
#include "trt/logger.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"
#include "trtw/library.hpp"

#include <NvInferRuntime.h>

#include <string_view>

namespace trtw::engine {

namespace {

std::string_view level_name(nvinfer1::HardwareCompatibilityLevel level) {
    switch (level) {
    case nvinfer1::HardwareCompatibilityLevel::kNONE:
        return "none";
    case nvinfer1::HardwareCompatibilityLevel::kAMPERE_PLUS:
        return "ampere_plus";
#if TRTW_TRT_SAME_COMPUTE_CAPABILITY
    case nvinfer1::HardwareCompatibilityLevel::kSAME_COMPUTE_CAPABILITY:
        return "same_compute_capability";
#endif
    }
    return "unknown";
}

std::string_view verbosity_name(nvinfer1::ProfilingVerbosity verbosity) {
    if (verbosity == nvinfer1::ProfilingVerbosity::kDETAILED) {
        return "detailed";
    }
    return verbosity == nvinfer1::ProfilingVerbosity::kNONE ? "none" : "layer_names_only";
}

std::string_view capability_name(nvinfer1::EngineCapability capability) {
    switch (capability) {
    case nvinfer1::EngineCapability::kSTANDARD:
        return "standard";
    case nvinfer1::EngineCapability::kSAFETY:
        return "safety";
    case nvinfer1::EngineCapability::kDLA_STANDALONE:
        return "dla_standalone";
    }
    return "unknown";
}

std::string text_of(const char* text) {
    return text != nullptr ? text : "";
}

} // namespace

EngineDescription inspect(const Plan& plan) {
    const nvinfer1::ICudaEngine& engine = plan.engine();
    const LogCapture capture{logger().buffer()};
    const std::unique_ptr<nvinfer1::IEngineInspector> inspector{engine.createEngineInspector()};
    if (!inspector) {
        throw DeviceFailure("TensorRT could not create an engine inspector: " + capture.errors());
    }
    EngineDescription description;
    description.name = text_of(engine.getName());
    description.tensorrt_version = library_status().version;
    description.layer_count = engine.getNbLayers();
    description.profile_count = plan.num_profiles();
    description.device_memory_bytes = plan.device_memory_bytes();
    description.aux_stream_count = engine.getNbAuxStreams();
    description.refittable = engine.isRefittable();
    description.hardware_compatibility = level_name(engine.getHardwareCompatibilityLevel());
    description.profiling_verbosity = verbosity_name(engine.getProfilingVerbosity());
    description.engine_capability = capability_name(engine.getEngineCapability());
    description.tactic_sources = tactic_source_names_in(engine.getTacticSources());
#if TRTW_TRT_WEIGHT_STREAMING
    description.streamable_weight_bytes = engine.getStreamableWeightsSize();
#endif
    description.layers_json = text_of(inspector->getEngineInformation(nvinfer1::LayerInformationFormat::kJSON));
    return description;
}

} // namespace trtw::engine
