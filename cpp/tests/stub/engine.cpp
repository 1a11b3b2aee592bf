// Running: engines, contexts, the runtime that reads plans, and refits.
#include "fake_cuda.hpp"
#include "stub.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

// NOLINTBEGIN(cppcoreguidelines-owning-memory): TensorRT hands out what its callers delete.
namespace stub {

namespace {

struct Inspector final : IEngineInspector, DefaultVEngineInspector {
    Inspector() { mImpl = this; }
    const char* getEngineInformation(LayerInformationFormat /*format*/) const noexcept override {
        return R"({"Layers": ["of the stub"]})";
    }
};

struct Engine final : ICudaEngine, DefaultVCudaEngine {
    explicit Engine(Content given) : content{std::move(given)}, model{content.model()} { mImpl = this; }

    [[nodiscard]] std::size_t index(const char* name) const {
        return static_cast<std::size_t>(*trtw::index_of(model.tensors, name));
    }
    [[nodiscard]] const fake::TensorInfo& tensor(const char* name) const { return model.tensors[index(name)]; }

    std::int32_t getNbIOTensors() const noexcept override { return static_cast<std::int32_t>(model.tensors.size()); }
    const char* getIOTensorName(std::int32_t i) const noexcept override {
        return model.tensors[static_cast<std::size_t>(i)].name.c_str();
    }
    TensorIOMode getTensorIOMode(const char* name) const noexcept override {
        return tensor(name).is_input ? TensorIOMode::kINPUT : TensorIOMode::kOUTPUT;
    }
    DataType getTensorDataType(const char* /*name*/) const noexcept override { return DataType::kFLOAT; }
    Dims getTensorShape(const char* name) const noexcept override { return dims_of(tensor(name).shape[0]); }
    TensorLocation getTensorLocation(const char* /*name*/) const noexcept override { return TensorLocation::kDEVICE; }
    bool isShapeInferenceIO(const char* /*name*/) const noexcept override { return false; }
    TensorFormat getTensorFormat(const char* /*name*/) const noexcept override { return TensorFormat::kLINEAR; }
#if NV_TENSORRT_MAJOR >= 10
    TensorFormat getTensorFormatV2(const char* /*name*/, std::int32_t /*profile*/) const noexcept override {
        return TensorFormat::kLINEAR;
    }
#endif
    const char* getTensorFormatDesc(const char* /*name*/) const noexcept override { return "Row major linear FP32"; }
    std::int32_t getNbOptimizationProfiles() const noexcept override {
        return static_cast<std::int32_t>(std::max<std::size_t>(content.profiles.size(), 1));
    }
    Dims getProfileShape(const char* name, std::int32_t profile, OptProfileSelector select) const noexcept override {
        return dims_of(range(name, profile)[static_cast<std::size_t>(select)]);
    }
    [[nodiscard]] Range range(const char* name, std::int32_t profile) const {
        const std::int64_t fixed = tensor(name).shape[0];
        return content.profiles.empty() ? Range{fixed, fixed, fixed}
                                        : content.profiles[static_cast<std::size_t>(profile)].at(name);
    }
    const char* getName() const noexcept override { return content.name.c_str(); }
    std::int32_t getNbLayers() const noexcept override { return 1; }
    IEngineInspector* createEngineInspector() const noexcept override { return new Inspector; }
    std::int32_t getNbAuxStreams() const noexcept override { return 0; }
    HardwareCompatibilityLevel getHardwareCompatibilityLevel() const noexcept override {
        return HardwareCompatibilityLevel::kNONE;
    }
    ProfilingVerbosity getProfilingVerbosity() const noexcept override { return ProfilingVerbosity::kDETAILED; }
    EngineCapability getEngineCapability() const noexcept override { return EngineCapability::kSTANDARD; }
    TacticSources getTacticSources() const noexcept override { return 1; }
    bool isRefittable() const noexcept override { return content.refittable; }
    IHostMemory* serialize() const noexcept override { return new Memory{to_text(content)}; }
    IExecutionContext* context();
#if NV_TENSORRT_MAJOR >= 10
    IExecutionContext* createExecutionContext(ExecutionContextAllocationStrategy /*strategy*/) noexcept override {
        return context();
    }
    ISerializationConfig* createSerializationConfig() noexcept override;
    IHostMemory* serializeWithConfig(ISerializationConfig& /*config*/) const noexcept override { return serialize(); }
    std::int64_t getStreamableWeightsSize() const noexcept override { return 0; }
#else
    IExecutionContext* createExecutionContextWithoutDeviceMemory() noexcept override { return context(); }
#endif
#if NV_TENSORRT_MAJOR < 11
    std::size_t getDeviceMemorySize() const noexcept override { return 256; }
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_MEMORY_SIZE_V2)
    std::int64_t getDeviceMemorySizeV2() const noexcept override { return 256; }
    std::int64_t getWeightStreamingBudgetV2() const noexcept override { return 0; }
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_ALIASED_OUTPUTS)
    const char* getAliasedInputTensor(const char* /*name*/) const noexcept override { return nullptr; }
#endif

    Content content;
    fake::Model model;
    std::set<std::int32_t> used_profiles; // before version 10 a profile serves one context
};

#if NV_TENSORRT_MAJOR >= 10
struct SerializationConfig final : ISerializationConfig, DefaultVSerializationConfig {
    SerializationConfig() { mImpl = this; }
    bool clearFlag(SerializationFlag /*flag*/) noexcept override { return true; }
    bool setFlag(SerializationFlag /*flag*/) noexcept override { return true; }
};

ISerializationConfig* Engine::createSerializationConfig() noexcept {
    return new SerializationConfig;
}
#endif

class Context final : public IExecutionContext, DefaultVExecutionContext {
public:
    explicit Context(Engine& engine)
        : engine_{engine}, shapes_(engine.model.tensors.size()), addresses_(engine.model.tensors.size()) {
        mImpl = this;
        take(0);
    }
    ~Context() noexcept override { engine_.used_profiles.erase(profile_); }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    std::int32_t getOptimizationProfile() const noexcept override { return profile_; }
    bool setOptimizationProfileAsync(std::int32_t profile, cudaStream_t /*stream*/) noexcept override {
        return take(profile) || refuse("Profile " + std::to_string(profile) + " has been chosen for another context");
    }
    bool setInputShape(const char* name, const Dims& dims) noexcept override {
        const Range range = engine_.range(name, profile_);
        if (dims.nbDims != 1 || dims.d[0] < range[0] || dims.d[0] > range[2]) {
            return refuse(std::string{"Supplied dimensions of "} + name + " are outside of the profile");
        }
        shapes_[engine_.index(name)] = dims.d[0];
        return true;
    }
    std::int32_t inferShapes(std::int32_t /*most*/, const char** /*names*/) noexcept override {
        std::int64_t elements = -1;
        for (std::size_t i = 0; i < shapes_.size(); ++i) {
            const fake::TensorInfo& tensor = engine_.model.tensors[i];
            if (tensor.is_input) {
                shapes_[i] = trtw::is_dynamic(tensor.shape) ? shapes_[i] : tensor.shape[0];
            }
            if (elements >= 0 && tensor.is_input && shapes_[i] != elements) {
                refuse("the lengths of the inputs differ");
                return -1;
            }
            elements = tensor.is_input ? shapes_[i] : elements;
            shapes_[i] = elements;
        }
        return 0;
    }
    Dims getTensorShape(const char* name) const noexcept override { return dims_of(shapes_[engine_.index(name)]); }
    bool setTensorAddress(const char* name, void* address) noexcept override {
        addresses_[engine_.index(name)] = address;
        return true;
    }
    void setProfiler(IProfiler* profiler) noexcept override { profiler_ = profiler; }
    bool enqueueV3(cudaStream_t stream) noexcept override {
        if (profiler_ != nullptr) {
            profiler_->reportLayerTime("of the stub", 0.5F);
        }
        if (std::count(addresses_.begin(), addresses_.end(), nullptr) > 0) {
            return refuse("a tensor has no address");
        }
        // Addresses, and weights that a kernel takes by value, are what they were when it was enqueued.
        fake::enqueue(
            stream, [shapes = shapes_, addresses = addresses_, model = engine_.model, weight = engine_.content.weight] {
                std::vector<fake::Values> inputs;
                std::vector<void*> outputs;
                for (std::size_t i = 0; i < addresses.size(); ++i) {
                    const auto* first = static_cast<const float*>(addresses[i]);
                    if (model.tensors[i].is_input) {
                        inputs.emplace_back(first, first + shapes[i]);
                    } else {
                        outputs.push_back(addresses[i]);
                    }
                }
                const std::vector<fake::Values> results = model.compute(inputs, weight);
                for (std::size_t o = 0; o < results.size(); ++o) {
                    std::memcpy(outputs[o], results[o].data(), results[o].size() * sizeof(float));
                }
            });
        return true;
    }

private:
    bool take(std::int32_t profile) {
        if (NV_TENSORRT_MAJOR < 10 && engine_.used_profiles.contains(profile)) {
            return false;
        }
        engine_.used_profiles.erase(profile_);
        engine_.used_profiles.insert(profile);
        profile_ = profile;
        return true;
    }

    Engine& engine_;
    std::int32_t profile_ = -1;
    std::vector<std::int64_t> shapes_;
    std::vector<void*> addresses_;
    IProfiler* profiler_ = nullptr;
};

IExecutionContext* Engine::context() {
    return new Context{*this};
}

ICudaEngine* engine_of(const void* plan, std::size_t size) {
    auto content = read_plan({static_cast<const char*>(plan), size});
    return content ? new Engine{std::move(*content)} : nullptr;
}

struct Runtime final : IRuntime, DefaultVRuntime {
    Runtime() { mImpl = this; }
    IPluginRegistry& getPluginRegistry() noexcept override { return no_registry(); }
#if NV_TENSORRT_MAJOR >= 10
    ICudaEngine* deserializeCudaEngine(const void* plan, std::size_t size) noexcept override {
        return engine_of(plan, size);
    }
#else
    ICudaEngine* deserializeCudaEngine(const void* plan, std::size_t size, IPluginFactory* /*none*/) noexcept override {
        return engine_of(plan, size);
    }
#endif
};

// Its engines have one weight under two names, which have to be given together.
class Refitter final : public IRefitter, DefaultVRefitter {
public:
    explicit Refitter(Engine& engine) : engine_{engine} { mImpl = this; }

    std::int32_t getAllWeights(std::int32_t size, const char** names) noexcept override {
        return list(weight_names, size, names);
    }
    std::int32_t getMissingWeights(std::int32_t size, const char** names) noexcept override {
        std::vector<const char*> missing;
        std::copy_if(weight_names.begin(), weight_names.end(), std::back_inserter(missing),
                     [&](const char* name) { return !given_.empty() && !given_.contains(name); });
        return list(missing, size, names);
    }
    bool setNamedWeights(const char* name, Weights weights) noexcept override {
        if (weights.type != DataType::kFLOAT || weights.count != 1) {
            return refuse("a weight is one float");
        }
        given_[name] = *static_cast<const float*>(weights.values);
        return true;
    }
    bool refitCudaEngine() noexcept override {
        engine_.content.weight = given_["scale"];
        return true;
    }

private:
    static constexpr std::array weight_names{"scale", "scale_again"};

    template <class Names>
    static std::int32_t list(const Names& found, std::int32_t size, const char** names) {
        std::copy_n(found.begin(), std::min<std::size_t>(found.size(), static_cast<std::size_t>(size)), names);
        return static_cast<std::int32_t>(found.size());
    }

    Engine& engine_;
    std::map<std::string, float> given_;
};

} // namespace

} // namespace stub

STUB_API std::int32_t getInferLibVersion() noexcept {
    return TRTW_TRT_VERSION;
}

STUB_API void* createInferRuntime_INTERNAL(void* logger, std::int32_t /*version*/) noexcept {
    stub::logger = static_cast<nvinfer1::ILogger*>(logger);
    return static_cast<nvinfer1::IRuntime*>(new stub::Runtime);
}

STUB_API void* createInferRefitter_INTERNAL(void* engine, void* /*logger*/, std::int32_t /*version*/) noexcept {
    auto& of = static_cast<stub::Engine&>(*static_cast<nvinfer1::ICudaEngine*>(engine));
    return static_cast<nvinfer1::IRefitter*>(new stub::Refitter{of});
}

// NOLINTEND(cppcoreguidelines-owning-memory)
