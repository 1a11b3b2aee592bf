// Building: networks, their parser, timing caches and the builder.
#include "stub.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

// Calibration is deprecated in TensorRT 10.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// NOLINTBEGIN(cppcoreguidelines-owning-memory): TensorRT hands out what its callers delete.
namespace stub {

namespace {

#if NV_TENSORRT_MAJOR >= 10
using GivenDims = const Dims&;
#else
using GivenDims = Dims;
#endif

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
#if TRTW_IN_HEADERS(TRTW_TRT_TILING)
    bool setTilingOptimizationLevel(TilingOptimizationLevel /*level*/) noexcept override { return true; }
#endif
#if TRTW_TRT_WEAK_TYPING
    void setInt8Calibrator(IInt8Calibrator* given) noexcept override { calibrator = given; }
    bool setCalibrationProfile(const IOptimizationProfile* /*profile*/) noexcept override { return true; }

    IInt8Calibrator* calibrator = nullptr;
#endif

    std::set<BuilderFlag> flags;
    std::vector<Profile> profiles;
    const ITimingCache* cache = nullptr;
};

#if TRTW_TRT_WEAK_TYPING
// The cache is the largest value of all batches.
void calibrate(IInt8Calibrator& calibrator, const char* input) {
    std::size_t length = 0;
    if (calibrator.readCalibrationCache(length) != nullptr) {
        return;
    }
    float largest = 0;
    for (void* batch = nullptr; calibrator.getBatch(&batch, &input, 1);) {
        const auto* values = static_cast<const float*>(batch);
        largest = std::max(largest, *std::max_element(values, values + calibrator.getBatchSize()));
    }
    const std::string cache = std::to_string(largest);
    calibrator.writeCalibrationCache(cache.data(), cache.size());
}
#endif

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
#if TRTW_TRT_WEAK_TYPING
        if (config.calibrator != nullptr) {
            calibrate(*config.calibrator, network.getInput(0)->getName());
        }
#endif
        if (auto* cache = static_cast<TimingCache*>(const_cast<ITimingCache*>(config.cache))) {
            cache->text += content.name + "\n";
        }
        return new Memory{to_text(content)};
    }

private:
    std::vector<std::unique_ptr<OptimizationProfile>> profiles_;
};

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

} // namespace

} // namespace stub

STUB_API void* createInferBuilder_INTERNAL(void* logger, std::int32_t /*version*/) noexcept {
    stub::logger = static_cast<nvinfer1::ILogger*>(logger);
    return static_cast<nvinfer1::IBuilder*>(new stub::Builder);
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
