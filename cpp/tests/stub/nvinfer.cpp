// A stand-in for libnvinfer and libnvonnxparser, so that what the core asks of TensorRT can be tested without it and
// without a GPU: an engine is one of the doubles (fakes/fake_model.hpp), computed on the double of CUDA. Its files are
// text: an "ONNX model" is "twice -1" or "recurrent 4", with the weight behind it where that is not 1; a plan is one
// with the version before it and its profiles behind.
#include "defaults.hpp"
#include "fake_cuda.hpp"
#include "fake_model.hpp"
#include "trt/version.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

// NOLINTBEGIN(cppcoreguidelines-owning-memory): TensorRT hands out what its callers delete.
namespace stub {

[[noreturn]] void unexpected(const char* method) {
    std::fprintf(stderr, "the stub of TensorRT has no %s\n", method);
    std::abort();
}

namespace {

using namespace nvinfer1;
using namespace nvinfer1::apiv;
#if NV_TENSORRT_MAJOR >= 10
using GivenDims = const Dims&;
#else
using GivenDims = Dims;
#endif
using Range = std::array<std::int64_t, 3>; // OptProfileSelector's order
using Profile = std::map<std::string, Range>;

ILogger* logger = nullptr;

bool refuse(const std::string& reason) {
    logger->log(ILogger::Severity::kERROR, reason.c_str());
    return false;
}

Dims dims_of(std::int64_t elements) {
    Dims dims{};
    dims.nbDims = 1;
    dims.d[0] = static_cast<std::remove_reference_t<decltype(dims.d[0])>>(elements);
    return dims;
}

// What a plan or a model holds.
struct Content {
    std::string name;
    std::int64_t elements = -1;
    float weight = 1;
    bool refittable = false;
    std::vector<Profile> profiles;

    [[nodiscard]] fake::Model model() const { return fake::model(name, elements); }
};

constexpr const char* plan_mark = "stub plan " TRTW_TRT_VERSION_TEXT;

std::string to_text(const Content& content) {
    std::ostringstream text;
    text << plan_mark << '\n'
         << content.name << ' ' << content.elements << ' ' << content.weight << ' ' << content.refittable << '\n';
    for (const Profile& profile : content.profiles) {
        for (const auto& [name, range] : profile) {
            text << name << ' ' << range[0] << ' ' << range[1] << ' ' << range[2] << ' ';
        }
        text << '\n';
    }
    return text.str();
}

std::optional<Content> read_plan(const std::string& plan) {
    std::istringstream text{plan};
    std::string line;
    std::getline(text, line);
    if (line != plan_mark) {
        refuse(line.starts_with("stub plan") ? "Version tag does not match" : "magicTag == kPLAN_MAGIC failed");
        return std::nullopt;
    }
    Content content;
    std::getline(text, line);
    std::istringstream{line} >> content.name >> content.elements >> content.weight >> content.refittable;
    while (std::getline(text, line)) {
        std::istringstream words{line};
        Profile profile;
        Range range;
        for (std::string name; words >> name >> range[0] >> range[1] >> range[2];) {
            profile[name] = range;
        }
        content.profiles.push_back(profile);
    }
    return content;
}

std::optional<Content> read_model(const char* path) {
    std::ifstream file{path};
    Content content;
    file >> content.name >> content.elements;
    if (float weight = 0; file >> weight) {
        content.weight = weight;
    }
    return content.model().tensors.empty() ? std::nullopt : std::optional{content};
}

class Memory final : public IHostMemory, DefaultVHostMemory {
public:
    explicit Memory(std::string text) : text_{std::move(text)} { mImpl = this; }
    void* data() const noexcept override { return const_cast<char*>(text_.data()); }
    std::size_t size() const noexcept override { return text_.size(); }

private:
    std::string text_;
};

// ---- engines

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
    std::int64_t getDeviceMemorySizeV2() const noexcept override { return 256; }
    std::int64_t getStreamableWeightsSize() const noexcept override { return 0; }
    std::int64_t getWeightStreamingBudgetV2() const noexcept override { return 0; }
    const char* getAliasedInputTensor(const char* /*name*/) const noexcept override { return nullptr; }
#else
    IExecutionContext* createExecutionContextWithoutDeviceMemory() noexcept override { return context(); }
    std::size_t getDeviceMemorySize() const noexcept override { return 256; }
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

// Never looked at: the tests load no plugins.
IPluginRegistry& no_registry() {
    static std::aligned_storage_t<64> storage;
    return reinterpret_cast<IPluginRegistry&>(storage);
}

struct Runtime final : IRuntime, DefaultVRuntime {
    Runtime() { mImpl = this; }
    IPluginRegistry& getPluginRegistry() noexcept override { return no_registry(); }
#if NV_TENSORRT_MAJOR >= 10
    ICudaEngine* deserializeCudaEngine(const void* blob, std::size_t size) noexcept override{
#else
    ICudaEngine* deserializeCudaEngine(const void* blob, std::size_t size, IPluginFactory* /*none*/) noexcept override {
#endif
        auto content = read_plan({static_cast<const char*>(blob), size});
    return content ? new Engine{std::move(*content)} : nullptr;
}
}; // namespace

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

// ---- building

struct Tensor final : ITensor, DefaultVTensor {
    explicit Tensor(fake::TensorInfo given) : info{std::move(given)} { mImpl = this; }
    const char* getName() const noexcept override { return info.name.c_str(); }
    Dims getDimensions() const noexcept override { return dims_of(info.shape[0]); }
    void setDimensions(GivenDims dims) noexcept override { info.shape[0] = dims.d[0]; }
    DataType getType() const noexcept override { return DataType::kFLOAT; }
    bool isShapeTensor() const noexcept override { return false; }
    const char* getDimensionName(std::int32_t /*index*/) const noexcept override { return nullptr; }
    fake::TensorInfo info;
};

struct Network final : INetworkDefinition, DefaultVNetworkDefinition {
    Network() { mImpl = this; }
    void read(Content given) {
        content = std::move(given);
        for (const fake::TensorInfo& tensor : content.model().tensors) {
            (tensor.is_input ? inputs : outputs).push_back(std::make_unique<Tensor>(tensor));
        }
    }
    std::int32_t getNbInputs() const noexcept override { return static_cast<std::int32_t>(inputs.size()); }
    ITensor* getInput(std::int32_t i) const noexcept override { return inputs[static_cast<std::size_t>(i)].get(); }
    std::int32_t getNbOutputs() const noexcept override { return static_cast<std::int32_t>(outputs.size()); }
    ITensor* getOutput(std::int32_t i) const noexcept override { return outputs[static_cast<std::size_t>(i)].get(); }
    std::int32_t getNbLayers() const noexcept override { return 0; }

    Content content;
    std::vector<std::unique_ptr<Tensor>> inputs;
    std::vector<std::unique_ptr<Tensor>> outputs;
};

struct OptimizationProfile final : IOptimizationProfile, DefaultVOptimizationProfile {
    OptimizationProfile() { mImpl = this; }
    bool setDimensions(const char* name, OptProfileSelector select, GivenDims dims) noexcept override {
        ranges[name][static_cast<std::size_t>(select)] = dims.d[0];
        return true;
    }
    bool isValid() const noexcept override { return true; }
    Profile ranges;
};

constexpr const char* cache_mark = "stub cache\n";

struct TimingCache final : ITimingCache, DefaultVTimingCache {
    explicit TimingCache(std::string given) : text{std::move(given)} { mImpl = this; }
    IHostMemory* serialize() const noexcept override { return new Memory{text}; }
    bool combine(const ITimingCache& other, bool /*ignore_mismatch*/) noexcept override {
        text += static_cast<const TimingCache&>(other).text.substr(std::strlen(cache_mark));
        return true;
    }
    std::string text;
};

struct Config final : IBuilderConfig, DefaultVBuilderConfig {
    Config() { mImpl = this; }
    void setFlag(BuilderFlag flag) noexcept override { flags.insert(flag); }
    std::int32_t addOptimizationProfile(const IOptimizationProfile* profile) noexcept override {
        profiles.push_back(static_cast<const OptimizationProfile*>(profile)->ranges);
        return static_cast<std::int32_t>(profiles.size()) - 1;
    }
    TacticSources getTacticSources() const noexcept override { return 0; }
    ITimingCache* createTimingCache(const void* blob, std::size_t size) const noexcept override {
        const std::string text{static_cast<const char*>(blob), size};
        if (!text.empty() && !text.starts_with(cache_mark)) {
            refuse("no timing cache");
            return nullptr;
        }
        return new TimingCache{text.empty() ? cache_mark : text};
    }
    bool setTimingCache(const ITimingCache& given, bool /*ignore_mismatch*/) noexcept override {
        cache = &given;
        return true;
    }
    const ITimingCache* getTimingCache() const noexcept override { return cache; }

    std::set<BuilderFlag> flags;
    std::vector<Profile> profiles;
    const ITimingCache* cache = nullptr;
};

class Builder final : public IBuilder, DefaultVBuilder {
public:
    Builder() { mImpl = this; }
    IPluginRegistry& getPluginRegistry() noexcept override { return no_registry(); }
    bool setMaxThreads(std::int32_t /*threads*/) noexcept override { return true; }
    IBuilderConfig* createBuilderConfig() noexcept override { return new Config; }
    INetworkDefinition* createNetworkV2(NetworkDefinitionCreationFlags /*flags*/) noexcept override {
        return new Network;
    }
    IOptimizationProfile* createOptimizationProfile() noexcept override {
        return profiles_.emplace_back(std::make_unique<OptimizationProfile>()).get();
    }
    IHostMemory* buildSerializedNetwork(INetworkDefinition& network, IBuilderConfig& given) noexcept override {
        auto& config = static_cast<Config&>(given);
        Content content = static_cast<Network&>(network).content;
        content.elements = network.getInput(0)->getDimensions().d[0];
        content.refittable = config.flags.contains(BuilderFlag::kREFIT);
        content.profiles = config.profiles;
        if (auto* cache = static_cast<TimingCache*>(const_cast<ITimingCache*>(config.cache))) {
            cache->text += content.name + "\n";
        }
        return new Memory{to_text(content)};
    }

private:
    std::vector<std::unique_ptr<OptimizationProfile>> profiles_;
};

// ---- the parser

struct NoModel final : nvonnxparser::DefaultIParserError {
    nvonnxparser::ErrorCode code() const override { return nvonnxparser::ErrorCode::kMODEL_DESERIALIZE_FAILED; }
    const char* desc() const override { return "this is no model of the stub"; }
    std::int32_t node() const override { return -1; }
#if NV_TENSORRT_MAJOR >= 10
    const char* nodeName() const override { return ""; }
    const char* nodeOperator() const override { return ""; }
#endif
};

// Of the parser, and of the one that refits.
template <class Base>
class Problems : public Base {
public:
    std::int32_t getNbErrors() const noexcept override { return failed_ ? 1 : 0; }
    const nvonnxparser::IParserError* getError(std::int32_t /*index*/) const noexcept override { return &problem_; }

protected:
    std::optional<Content> read(const char* path) {
        auto content = read_model(path);
        failed_ = !content;
        return content;
    }

private:
    NoModel problem_;
    bool failed_ = false;
};

class Parser final : public Problems<nvonnxparser::DefaultIParser> {
public:
    explicit Parser(Network& network) : network_{network} {}
    bool parseFromFile(const char* path, int /*verbosity*/) noexcept override {
        const auto content = read(path);
        if (content) {
            network_.read(*content);
        }
        return content.has_value();
    }
    bool supportsOperator(const char* name) const noexcept override { return std::string{name} != "Unknown"; }

private:
    Network& network_;
};

#if TRTW_TRT_PARSER_REFITTER
class ParserRefitter final : public Problems<nvonnxparser::DefaultIParserRefitter> {
public:
    explicit ParserRefitter(IRefitter& refitter) : refitter_{refitter} {}
    bool refitFromFile(const char* path) noexcept override {
        const auto content = read(path);
        if (!content) {
            return false;
        }
        const Weights weight{DataType::kFLOAT, &content->weight, 1};
        return refitter_.setNamedWeights("scale", weight) && refitter_.setNamedWeights("scale_again", weight);
    }

private:
    IRefitter& refitter_;
};
#endif

} // namespace stub

} // namespace stub

#define STUB_API extern "C" __attribute__((visibility("default")))

STUB_API std::int32_t getInferLibVersion() noexcept {
    return TRTW_TRT_VERSION;
}

STUB_API void* createInferRuntime_INTERNAL(void* logger, std::int32_t /*version*/) noexcept {
    stub::logger = static_cast<nvinfer1::ILogger*>(logger);
    return static_cast<nvinfer1::IRuntime*>(new stub::Runtime);
}

STUB_API void* createInferBuilder_INTERNAL(void* logger, std::int32_t /*version*/) noexcept {
    stub::logger = static_cast<nvinfer1::ILogger*>(logger);
    return static_cast<nvinfer1::IBuilder*>(new stub::Builder);
}

STUB_API void* createInferRefitter_INTERNAL(void* engine, void* /*logger*/, std::int32_t /*version*/) noexcept {
    auto& of = static_cast<stub::Engine&>(*static_cast<nvinfer1::ICudaEngine*>(engine));
    return static_cast<nvinfer1::IRefitter*>(new stub::Refitter{of});
}

STUB_API void* createNvOnnxParser_INTERNAL(void* network, void* /*logger*/, int /*version*/)
#if NV_TENSORRT_MAJOR >= 10
    noexcept
#endif
{
    auto& to = static_cast<stub::Network&>(*static_cast<nvinfer1::INetworkDefinition*>(network));
    return static_cast<nvonnxparser::IParser*>(new stub::Parser{to});
}

#if TRTW_TRT_PARSER_REFITTER
STUB_API void* createNvOnnxParserRefitter_INTERNAL(void* refitter, void* /*logger*/,
                                                   std::int32_t /*version*/) noexcept {
    return static_cast<nvonnxparser::IParserRefitter*>(
        new stub::ParserRefitter{*static_cast<nvinfer1::IRefitter*>(refitter)});
}
#endif
// NOLINTEND(cppcoreguidelines-owning-memory)
