#include "trtw/refit.hpp"

#include "build/onnx_parser.hpp"
#include "device/scope.hpp"
#include "trt/api.hpp"
#include "trt/entry_points.hpp"
#include "trt/failure.hpp"
#include "trt/host_memory.hpp"
#include "trt/joined.hpp"
#include "trt/logger.hpp"
#include "trt/types.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"

#include <algorithm>
#include <span>

namespace trtw {

namespace {

std::unique_ptr<nvinfer1::IRefitter> open_refitter(const Plan& plan) {
    if (!plan.engine().isRefittable()) {
        throw UsageProblem("The engine is not refittable; build it with refit 'full' or 'identical'.");
    }
    return create_refitter(plan.engine());
}

using NameQuery = std::int32_t (nvinfer1::IRefitter::*)(std::int32_t, const char**) noexcept;

std::vector<std::string> names_of(nvinfer1::IRefitter& refitter, NameQuery query) {
    const std::int32_t count = (refitter.*query)(0, nullptr);
    std::vector<const char*> pointers(static_cast<std::size_t>(std::max(count, 0)));
    (refitter.*query)(count, pointers.data());
    std::vector<std::string> names{pointers.begin(), pointers.end()};
    std::sort(names.begin(), names.end());
    return names;
}

std::string first_of(const std::vector<std::string>& names) {
    constexpr std::size_t most = 8;
    const std::string text = joined(std::span{names}.first(std::min(names.size(), most)));
    return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more" : text;
}

void finish(nvinfer1::IRefitter& refitter, const LogCapture& capture) {
    const auto missing = names_of(refitter, &nvinfer1::IRefitter::getMissingWeights);
    if (!missing.empty()) {
        throw UsageProblem("Refitting needs these weights as well: " + first_of(missing) + ".");
    }
    if (!refitter.refitCudaEngine()) {
        throw UsageProblem("TensorRT could not refit the engine: " + capture.errors());
    }
}

SharedBytes serialize(const Plan& plan, const LogCapture& capture) {
    nvinfer1::ICudaEngine& engine = plan.engine();
#if TRTW_TRT_STRIP_PLAN
    const std::unique_ptr<nvinfer1::ISerializationConfig> config{engine.createSerializationConfig()};
    if (!config) {
        raise_device("creating a serialisation configuration", capture.errors());
    }
    // The plan keeps its weights, also where it was stripped before.
    config->clearFlag(nvinfer1::SerializationFlag::kEXCLUDE_WEIGHTS);
#if TRTW_IN_HEADERS(TRTW_TRT_KEEP_REFITTABLE)
    if (has(TRTW_TRT_KEEP_REFITTABLE)) {
        config->setFlag(nvinfer1::SerializationFlag::kINCLUDE_REFIT);
    }
#endif
    SharedBytes bytes = shared_bytes(engine.serializeWithConfig(*config));
#else
    SharedBytes bytes = shared_bytes(engine.serialize());
#endif
    if (!bytes) {
        raise_device("serialising the refitted engine", capture.errors());
    }
    return bytes;
}

// Calls that were put on streams of their callers' count as calls no longer.
void wait_for_streams() {
    TRTW_CUDA(cudaDeviceSynchronize());
}

} // namespace

std::vector<std::string> refittable_weights(const Plan& plan) {
    const DeviceScope scope{plan.device()};
    return names_of(*open_refitter(plan), &nvinfer1::IRefitter::getAllWeights);
}

SharedBytes refit_from_onnx(const Plan& plan, const std::string& model_path) {
#if TRTW_TRT_PARSER_REFITTER
    const EntryPoints& entry = entry_points();
    if (entry.create_parser_refitter == nullptr) {
        throw ComponentMissing("libnvonnxparser was not found next to libnvinfer; run `setup-tensorrt`.");
    }
    check_model_file(model_path);
    const CallGate::Closed closed{plan.gate()};
    const DeviceScope scope{plan.device()};
    wait_for_streams();
    const LogCapture capture{logger().buffer()};
    const auto refitter = open_refitter(plan);
    const std::unique_ptr<nvonnxparser::IParserRefitter> parser{static_cast<nvonnxparser::IParserRefitter*>(
        entry.create_parser_refitter(refitter.get(), &logger(), NV_ONNX_PARSER_VERSION))};
    if (!parser) {
        raise_device("creating an ONNX refitter", capture.errors());
    }
    const bool parsed = parser->refitFromFile(model_path.c_str());
    const auto problems = parser_problems(*parser, model_path);
    if (!parsed || !problems.empty()) {
        throw_parser_problems(problems, capture.errors(), model_path);
    }
    finish(*refitter, capture);
    return serialize(plan, capture);
#else
    static_cast<void>(plan);
    throw UsageProblem(version_in_words() +
                       " cannot refit from an ONNX model; give the weights by name. Model: " + model_path);
#endif
}

SharedBytes refit_from_values(const Plan& plan, const std::map<std::string, WeightValues>& weights) {
    if (weights.empty()) {
        throw UsageProblem("No weights to refit were given.");
    }
    const CallGate::Closed closed{plan.gate()};
    const DeviceScope scope{plan.device()};
    wait_for_streams();
    const LogCapture capture{logger().buffer()};
    const auto refitter = open_refitter(plan);
    const auto known = names_of(*refitter, &nvinfer1::IRefitter::getAllWeights);
    for (const auto& [name, values] : weights) {
        if (!std::binary_search(known.begin(), known.end(), name)) {
            throw UsageProblem("The engine has no refittable weight '" + name + "'; it has " + first_of(known) + ".");
        }
        const nvinfer1::Weights given{parse_dtype(values.dtype), values.data, static_cast<std::int64_t>(values.count)};
        if (!refitter->setNamedWeights(name.c_str(), given)) {
            throw UsageProblem("TensorRT refused the weight '" + name + "': " + capture.errors());
        }
    }
    finish(*refitter, capture);
    return serialize(plan, capture);
}

} // namespace trtw
