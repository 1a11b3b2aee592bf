#include "trtw/inspect.hpp"

#include "build/builder_config.hpp"
#include "trt/failure.hpp"
#include "trt/logger.hpp"
#include "trtw/error.hpp"
#include "trtw/library.hpp"

#include <NvInferRuntime.h>

namespace trtw {

namespace {

using nvinfer1::EngineCapability;
using nvinfer1::HardwareCompatibilityLevel;

const Names<HardwareCompatibilityLevel> levels = {
    {"none", HardwareCompatibilityLevel::kNONE},
    {"ampere_plus", HardwareCompatibilityLevel::kAMPERE_PLUS},
#if TRTW_IN_HEADERS(TRTW_TRT_SAME_COMPUTE_CAPABILITY)
    {"same_compute_capability", HardwareCompatibilityLevel::kSAME_COMPUTE_CAPABILITY},
#endif
};

const Names<EngineCapability> capabilities = {
    {"standard", EngineCapability::kSTANDARD},
    {"safety", EngineCapability::kSAFETY},
    {"dla_standalone", EngineCapability::kDLA_STANDALONE},
};

std::string text_of(const char* text) {
    return text != nullptr ? text : "";
}

} // namespace

EngineDescription inspect(const Plan& plan) {
    const nvinfer1::ICudaEngine& engine = plan.engine();
    const LogCapture capture{logger().buffer()};
    const std::unique_ptr<nvinfer1::IEngineInspector> inspector{engine.createEngineInspector()};
    if (!inspector) {
        raise_device("creating an engine inspector", capture.errors());
    }
    EngineDescription description;
    description.name = text_of(engine.getName());
    description.tensorrt_version = library_status().version;
    description.layer_count = engine.getNbLayers();
    description.profile_count = plan.num_profiles();
    description.device_memory_bytes = plan.device_memory_bytes();
    description.aux_stream_count = engine.getNbAuxStreams();
    description.refittable = engine.isRefittable();
    description.hardware_compatibility = levels.of(engine.getHardwareCompatibilityLevel());
    description.profiling_verbosity = verbosity_words.of(engine.getProfilingVerbosity());
    description.engine_capability = capabilities.of(engine.getEngineCapability());
    description.tactic_sources = tactic_source_names_in(engine.getTacticSources());
#if TRTW_TRT_WEIGHT_STREAMING
    description.streamable_weight_bytes = engine.getStreamableWeightsSize();
#endif
    description.layers_json = text_of(inspector->getEngineInformation(nvinfer1::LayerInformationFormat::kJSON));
    return description;
}

} // namespace trtw
