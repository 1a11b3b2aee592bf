#include "trtw/plan.hpp"

#include "device/scope.hpp"
#include "device/status.hpp"
#include "trt/api.hpp"
#include "trt/failure.hpp"
#include "trt/logger.hpp"
#include "trt/plan_file.hpp"
#include "trt/plugins.hpp"
#include "trt/types.hpp"
#include "trt/version.hpp"
#include "trtw/library.hpp"

#include <NvInferRuntime.h>
#include <cuda_runtime_api.h>

#include <algorithm>

// getDeviceMemorySize, which is all that 10.0 has.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace trtw {

namespace {

void check_device(int wanted) {
    const DeviceStatus status = device_status();
    if (!status.ok) {
        throw DeviceFailure("No GPU can be used here: " + status.error + ". `trtw doctor` shows the driver.");
    }
    if (wanted >= status.device_count) {
        throw UsageProblem("Device " + std::to_string(wanted) + " does not exist: this process sees " +
                           std::to_string(status.device_count) + ".");
    }
}

ProfileRange shape_range(const nvinfer1::ICudaEngine& engine, const char* name, int profile) {
    using nvinfer1::OptProfileSelector;
    return {to_vector(engine.getProfileShape(name, profile, OptProfileSelector::kMIN)),
            to_vector(engine.getProfileShape(name, profile, OptProfileSelector::kOPT)),
            to_vector(engine.getProfileShape(name, profile, OptProfileSelector::kMAX))};
}

// TensorRT 8.6 may tell neither shape nor range of a fixed input where an output's shape depends on the data; a
// context tells the shape then. Built without a profile, as apply_profiles never does, such an engine has no context.
void read_ranges(nvinfer1::ICudaEngine& engine, TensorInfo& tensor, int profiles) {
    const char* name = tensor.name.c_str();
    std::vector<ProfileRange> told;
    if (is_dynamic(tensor.shape)) {
        for (int p = 0; p < profiles; ++p) {
            told.push_back(shape_range(engine, name, p));
        }
    }
    const bool untold = tensor.shape.empty() || std::any_of(told.begin(), told.end(), [&](const ProfileRange& range) {
                            return range.max.size() != tensor.shape.size();
                        });
    if (untold) {
        const LogCapture capture{logger().buffer()};
        const auto context = create_context(engine); // without scratch memory: enough to ask it for shapes
        if (!context) {
            throw UsageProblem(
                "TensorRT creates no execution context for the engine and hides the shape of its input '" +
                tensor.name + "'. Where shapes depend on the data, an engine needs an optimisation " +
                "profile even if its inputs are fixed: build it again with this version. " +
                "TensorRT says: " + capture.errors());
        }
        const nvinfer1::Dims dims = context->getTensorShape(name);
        if (dims.nbDims > 0) {
            tensor.shape = to_vector(dims);
        }
    }
    told.resize(static_cast<std::size_t>(profiles));
    for (const ProfileRange& range : told) {
        tensor.profiles.push_back(complete_range(tensor.shape, range));
    }
}

// Value ranges of a shape tensor; TensorRT 8.6 tells them through deprecated calls only and checks them itself.
std::vector<ProfileRange> value_ranges([[maybe_unused]] const nvinfer1::ICudaEngine& engine,
                                       [[maybe_unused]] const TensorInfo& tensor, [[maybe_unused]] int profiles) {
    std::vector<ProfileRange> ranges;
#if TRTW_IN_HEADERS(TRTW_TRT_PROFILE_VALUES_V2)
    if (!has(TRTW_TRT_PROFILE_VALUES_V2)) {
        return {};
    }
    using nvinfer1::OptProfileSelector;
    const auto count = static_cast<std::size_t>(volume(tensor.shape));
    for (int p = 0; p < profiles; ++p) {
        const auto read = [&](OptProfileSelector select) {
            const std::int64_t* values = engine.getProfileTensorValuesV2(tensor.name.c_str(), p, select);
            return values != nullptr ? Shape{values, values + count} : Shape{};
        };
        ProfileRange range{read(OptProfileSelector::kMIN), read(OptProfileSelector::kOPT),
                           read(OptProfileSelector::kMAX)};
        if (range.min.empty() || range.max.empty()) {
            return {};
        }
        ranges.push_back(std::move(range));
    }
#endif
    return ranges;
}

// With several profiles each may have a format of its own, where the engine was built with a choice.
bool has_one_format([[maybe_unused]] const nvinfer1::ICudaEngine& engine, [[maybe_unused]] const char* name,
                    [[maybe_unused]] int profiles) {
#if NV_TENSORRT_MAJOR >= 10
    for (int p = 1; p < profiles; ++p) {
        if (engine.getTensorFormat(name, p) != engine.getTensorFormat(name)) {
            return false;
        }
    }
#endif
    return true;
}

std::int64_t channel_group(nvinfer1::TensorFormat format) {
    using nvinfer1::TensorFormat;
    return format == TensorFormat::kHWC8 ? 8 : format == TensorFormat::kHWC ? 1 : 0;
}

TensorInfo describe(nvinfer1::ICudaEngine& engine, const char* name, int profiles) {
    TensorInfo tensor;
    tensor.name = name;
    tensor.is_input = engine.getTensorIOMode(name) == nvinfer1::TensorIOMode::kINPUT;
    const nvinfer1::DataType type = engine.getTensorDataType(name);
    tensor.dtype = dtype_name(type);
    tensor.bits = dtype_bits(type);
    tensor.shape = to_vector(engine.getTensorShape(name));
    tensor.on_host = engine.getTensorLocation(name) == nvinfer1::TensorLocation::kHOST;
    tensor.is_shape_tensor = engine.isShapeInferenceIO(name);
    const bool one_format = has_one_format(engine, name, profiles);
    tensor.is_linear = one_format && engine.getTensorFormat(name) == nvinfer1::TensorFormat::kLINEAR;
    tensor.channel_group = one_format ? channel_group(engine.getTensorFormat(name)) : 0;
    const char* format = engine.getTensorFormatDesc(name);
    tensor.format = format != nullptr ? format : "";
#if TRTW_IN_HEADERS(TRTW_TRT_ALIASED_OUTPUTS)
    const bool may_be = !tensor.is_input && has(TRTW_TRT_ALIASED_OUTPUTS);
    const char* aliased = may_be ? engine.getAliasedInputTensor(name) : nullptr;
    tensor.aliased_input = aliased != nullptr ? aliased : "";
#endif
    if (tensor.is_input) {
        read_ranges(engine, tensor, profiles);
        if (tensor.is_shape_tensor && tensor.on_host && !is_dynamic(tensor.shape) && !holds_floats(tensor)) {
            tensor.values = value_ranges(engine, tensor, profiles);
        }
    }
    return tensor;
}

void set_weight_budget([[maybe_unused]] nvinfer1::ICudaEngine& engine, [[maybe_unused]] WeightBudget budget) {
#if TRTW_IN_HEADERS(TRTW_TRT_WEIGHT_BUDGET)
    const std::int64_t streamable = engine.getStreamableWeightsSize();
    if (streamable <= 0) {
        throw UsageProblem("A weight streaming budget is given, but the engine has no weights to stream. Build it with "
                           "weight streaming (`build-engine --weight-streaming`), or omit the budget.");
    }
    const LogCapture capture{logger().buffer()};
    const std::int64_t bytes = budget == WeightBudget::automatic
                                   ? engine.getWeightStreamingAutomaticBudget()
                                   : std::min(static_cast<std::int64_t>(budget), streamable);
    if (!engine.setWeightStreamingBudgetV2(bytes)) {
        throw UsageProblem("TensorRT refused a weight streaming budget of " + std::to_string(bytes) + " bytes; the " +
                           "engine can stream " + std::to_string(streamable) + ". TensorRT says: " + capture.errors());
    }
#endif
}

bool streams_weights([[maybe_unused]] const nvinfer1::ICudaEngine& engine) {
#if TRTW_IN_HEADERS(TRTW_TRT_WEIGHT_BUDGET)
    const std::int64_t streamable = has(TRTW_TRT_WEIGHT_BUDGET) ? engine.getStreamableWeightsSize() : 0;
    return streamable > 0 && engine.getWeightStreamingBudgetV2() < streamable;
#else
    return false;
#endif
}

std::size_t scratch_bytes(const nvinfer1::ICudaEngine& engine) {
#if NV_TENSORRT_MAJOR >= 11
    return static_cast<std::size_t>(engine.getDeviceMemorySizeV2());
#else
#if TRTW_IN_HEADERS(TRTW_TRT_MEMORY_SIZE_V2)
    if (has(TRTW_TRT_MEMORY_SIZE_V2)) {
        return static_cast<std::size_t>(engine.getDeviceMemorySizeV2());
    }
#endif
    return engine.getDeviceMemorySize();
#endif
}

} // namespace

void check_plan_options(const PlanOptions& options) {
    if (!options.weight_streaming_budget) {
        return;
    }
    if (!has(TRTW_TRT_WEIGHT_BUDGET)) {
        throw UsageProblem(version_in_words() + " has no weight streaming budget; use 10.1 or later.");
    }
    const auto bytes = static_cast<std::int64_t>(*options.weight_streaming_budget);
    if (bytes < 0 && options.weight_streaming_budget != WeightBudget::automatic) {
        throw UsageProblem("A weight streaming budget must be a number of bytes, not " + std::to_string(bytes) + ".");
    }
}

std::string explain_refusal(const std::string& log, const std::string& library) {
    const std::string said = log.empty() ? "" : " TensorRT says: " + log;
    if (mentions_any(log, {"expecting library version", "Version tag does not match", "stdVersionRead",
                           "not compatible with this version", "version-compatible", "safeVersionRead"})) {
        return "The engine was built by another version of TensorRT than the one loaded here, " + library +
               ". Build it again with this version, or load the version that built it." + said;
    }
    if (mentions_any(log, {"expecting compute", "incompatible device", "compute capability", "different GPU"})) {
        return "The engine was built for another GPU. Build it again on this one. Loaded: " + library + "." + said;
    }
    if (mentions_any(log, {"getPluginCreator", "Plugin not found", "plugin"})) {
        return "The engine uses a plugin that is not loaded. Load its library first. Loaded: " + library + "." + said;
    }
    return "TensorRT cannot read the engine: it is damaged, truncated, or not an engine. Build it again. Loaded: " +
           library + "." + said;
}

std::shared_ptr<Plan> Plan::load(std::span<const std::byte> bytes, const PlanOptions& options) {
    const PlanBytes file = read_plan(bytes);
    const LibraryStatus library = load_library(options.library_dir);
    check_plan_options(options);
    // make_shared cannot reach the private constructor.
    std::shared_ptr<Plan> plan{new Plan};
    plan->metadata_ = file.metadata;
    check_device(options.device);
    const DeviceScope scope{options.device};
    plan->device_ = scope.device();
    plan->runtime_ = create_runtime();
    plan->runtime_->setEngineHostCodeAllowed(options.allow_host_code);
    load_plugins(plan->runtime_->getPluginRegistry(), options.plugins);
    const LogCapture capture{logger().buffer()};
    // Its memory goes on the device that it was taken on, whatever the last owner's thread has selected.
    plan->engine_ = {plan->runtime_->deserializeCudaEngine(file.plan.data(), file.plan.size()),
                     [device = plan->device_](nvinfer1::ICudaEngine* engine) {
                         const DeviceScope selected{device, std::nothrow};
                         delete engine; // NOLINT(cppcoreguidelines-owning-memory)
                     }};
    if (!plan->engine_) {
        const std::string log = capture.errors();
        raise_if_device("loading the engine", log);
        throw UsageProblem(
            explain_refusal(log, "TensorRT " + library.version + " (" + library.libnvinfer.string() + ")"));
    }
    if (options.weight_streaming_budget) {
        set_weight_budget(*plan->engine_, *options.weight_streaming_budget); // before the first context is made
    }
    plan->read_tensors();
    return plan;
}

void Plan::read_tensors() {
    // At least one: an engine of fixed shapes is asked for profile 0, too.
    num_profiles_ = std::max(engine_->getNbOptimizationProfiles(), 1);
    device_memory_bytes_ = scratch_bytes(*engine_);
    streams_weights_ = trtw::streams_weights(*engine_);
    for (int i = 0; i < engine_->getNbIOTensors(); ++i) {
        add_tensor(describe(*engine_, engine_->getIOTensorName(i), num_profiles_));
    }
}

} // namespace trtw
