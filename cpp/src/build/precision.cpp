#include "build/precision.hpp"

#include "build/network.hpp"
#include "trt/types.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"

#include <array>
#include <fnmatch.h>
#include <optional>
#include <string>
#include <string_view>

// Weak typing is deprecated in TensorRT 10 and the only way in 8.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace trtw {

namespace {

using nvinfer1::BuilderFlag;
using nvinfer1::DataType;

struct Request {
    bool BuildOptions::* asked;
    std::string_view name;
    std::optional<DataType> type;    ///< unset where the version lacks the type
    std::optional<BuilderFlag> flag; ///< unset where the version has no flag for it
    int major = 0;                   ///< the version that brought it
    int minor = 0;

    [[nodiscard]] bool present() const noexcept { return type && has(major, minor); }
};

// One row a precision; what a version lacks is unset, so that asking for it is an error.
const auto precision_requests = std::to_array<Request>({
#if TRTW_TRT_WEAK_TYPING
    {&BuildOptions::fp16, "fp16", DataType::kHALF, BuilderFlag::kFP16},
    {&BuildOptions::int8, "int8", DataType::kINT8, BuilderFlag::kINT8},
#else
    {&BuildOptions::fp16, "fp16", DataType::kHALF, std::nullopt},
    {&BuildOptions::int8, "int8", DataType::kINT8, std::nullopt},
#endif
#if NV_TENSORRT_MAJOR < 10
    // The header of 8.6 has a flag for FP8 and says beside it that FP8 is not supported yet.
    {&BuildOptions::bf16, "bf16", std::nullopt, std::nullopt},
    {&BuildOptions::fp8, "fp8", std::nullopt, std::nullopt},
#elif TRTW_TRT_WEAK_TYPING
    {&BuildOptions::bf16, "bf16", DataType::kBF16, BuilderFlag::kBF16},
    {&BuildOptions::fp8, "fp8", DataType::kFP8, BuilderFlag::kFP8},
#else
    {&BuildOptions::bf16, "bf16", DataType::kBF16, std::nullopt},
    {&BuildOptions::fp8, "fp8", DataType::kFP8, std::nullopt},
#endif
#if !TRTW_IN_HEADERS(TRTW_TRT_INT4_FLAG)
    {&BuildOptions::int4, "int4", std::nullopt, std::nullopt},
#elif TRTW_TRT_WEAK_TYPING
    {&BuildOptions::int4, "int4", DataType::kINT4, BuilderFlag::kINT4, TRTW_TRT_INT4_FLAG},
#else
    {&BuildOptions::int4, "int4", DataType::kINT4, std::nullopt},
#endif
#if !TRTW_IN_HEADERS(TRTW_TRT_HAS_FP4)
    {&BuildOptions::fp4, "fp4", std::nullopt, std::nullopt},
#elif TRTW_TRT_WEAK_TYPING
    {&BuildOptions::fp4, "fp4", DataType::kFP4, BuilderFlag::kFP4, TRTW_TRT_HAS_FP4},
#else
    {&BuildOptions::fp4, "fp4", DataType::kFP4, std::nullopt},
#endif
});

bool is_strongly_typed(const BuildOptions& options) {
    return !TRTW_TRT_WEAK_TYPING || options.strongly_typed;
}

void check_strongly_typed(const NetworkTypes& types, const BuildOptions& options) {
    for (const Request& request : precision_requests) {
        if (!(options.*request.asked) || !request.type) { // what the version lacks was refused before
            continue;
        }
        if (!types.tensors.contains(*request.type) && !types.quantized.contains(*request.type)) {
            throw UsageProblem(std::string{request.name} +
                               " is requested, but a strongly typed network takes its "
                               "types from the graph, and no tensor of this model is " +
                               std::string{dtype_name(*request.type)} +
                               ". Convert the ONNX model to that precision first.");
        }
    }
}

void check_weakly_typed(const NetworkTypes& types, const BuildOptions& options) {
    for (const Request& request : precision_requests) {
        if (request.type && types.quantized.contains(*request.type) && !(options.*request.asked)) {
            throw UsageProblem("The model has Q/DQ nodes of type " + std::string{dtype_name(*request.type)} + ", but " +
                               std::string{request.name} + " is not requested.");
        }
    }
    const bool explicit_int8 = types.quantized.contains(DataType::kINT8);
    if (options.int8 && !explicit_int8 && !options.calibration) {
        throw UsageProblem("int8 is requested, but the model has no Q/DQ nodes and no calibration data is given; "
                           "quantize the model, or give calibration batches or a calibration cache.");
    }
    if (options.calibration && !types.quantized.empty()) {
        throw UsageProblem("Calibration is given, but the model has Q/DQ nodes, which set its scales; omit one.");
    }
}

#if TRTW_TRT_WEAK_TYPING
void apply_flags(nvinfer1::IBuilderConfig& config, const BuildOptions& options) {
    for (const Request& request : precision_requests) {
        if (options.*request.asked && request.flag) {
            config.setFlag(*request.flag);
        }
    }
    if (options.precision_constraints == PrecisionConstraints::obey) {
        config.setFlag(BuilderFlag::kOBEY_PRECISION_CONSTRAINTS);
    } else if (options.precision_constraints == PrecisionConstraints::prefer) {
        config.setFlag(BuilderFlag::kPREFER_PRECISION_CONSTRAINTS);
    }
}

// Layers whose output no precision can be asked for: shape arithmetic and integer data.
bool has_float_output(const nvinfer1::ILayer& layer) {
    if (layer.getNbOutputs() == 0) {
        return false;
    }
    const DataType type = layer.getOutput(0)->getType();
    return type != DataType::kINT32 && type != DataType::kBOOL && type != DataType::kUINT8
#if NV_TENSORRT_MAJOR >= 10
           && type != DataType::kINT64
#endif
           && !layer.getOutput(0)->isShapeTensor();
}

template <class Apply>
void apply_rules(nvinfer1::INetworkDefinition& network, const std::vector<LayerRule>& rules, const char* option,
                 Apply&& apply) {
    for (const LayerRule& rule : rules) {
        const DataType type = parse_dtype(rule.dtype);
        bool matched = false;
        for (int i = 0; i < network.getNbLayers(); ++i) {
            nvinfer1::ILayer& layer = *network.getLayer(i);
            if (fnmatch(rule.pattern.c_str(), layer.getName(), 0) == 0 && has_float_output(layer)) {
                apply(layer, type);
                matched = true;
            }
        }
        if (!matched) {
            throw UsageProblem(std::string{option} + ": no floating-point layer's name matches '" + rule.pattern +
                               "'.");
        }
    }
}
#endif

void apply_io_types(const nvinfer1::INetworkDefinition& network, const BuildOptions& options) {
    for (const auto& [name, dtype] : options.io_types) {
        nvinfer1::ITensor& tensor = find_network_io(network, name, "io_types");
        const DataType type = parse_dtype(dtype);
        if (tensor.getType() == type) {
            continue;
        }
#if TRTW_TRT_WEAK_TYPING
        if (!options.strongly_typed) {
            tensor.setType(type);
            continue;
        }
#endif
        throw UsageProblem("io_types: '" + name + "' is " + std::string{dtype_name(tensor.getType())} +
                           " in the graph, and a strongly typed network keeps it; insert a Cast into the ONNX model.");
    }
}

} // namespace

std::vector<std::string> precision_names() {
    std::vector<std::string> names{"tf32"};
    for (const Request& request : precision_requests) {
        if (request.present()) {
            names.emplace_back(request.name);
        }
    }
    return names;
}

void check_precision_supported(const BuildOptions& options) {
    for (const Request& request : precision_requests) {
        if (options.*request.asked && !request.present()) {
            throw UsageProblem(version_in_words() + " has no " + std::string{request.name} + ".");
        }
    }
    if (!TRTW_TRT_STRONG_TYPING && options.strongly_typed) {
        throw UsageProblem(version_in_words() + " has no strongly typed networks.");
    }
    if (!TRTW_TRT_WEAK_TYPING) {
        if (options.calibration) {
            throw UsageProblem(version_in_words() +
                               " has no INT8 calibrators; quantize the ONNX model with Q/DQ nodes.");
        }
        if (options.precision_constraints != PrecisionConstraints::none) {
            throw UsageProblem(version_in_words() + " has no precision constraints or layer precisions: "
                                                    "types come from the graph; convert the ONNX model.");
        }
    }
}

void check_precision_of(const NetworkTypes& types, const BuildOptions& options) {
    if (is_strongly_typed(options)) {
        check_strongly_typed(types, options);
    } else {
        check_weakly_typed(types, options);
    }
}

void apply_precision(nvinfer1::INetworkDefinition& network, nvinfer1::IBuilderConfig& config,
                     const BuildOptions& options) {
    if (options.tf32) {
        config.setFlag(BuilderFlag::kTF32);
    } else {
        config.clearFlag(BuilderFlag::kTF32); // on by default
    }
#if TRTW_TRT_WEAK_TYPING
    if (!options.strongly_typed) {
        apply_flags(config, options);
        apply_rules(network, options.layer_precisions, "layer_precisions",
                    [](nvinfer1::ILayer& layer, DataType type) { layer.setPrecision(type); });
        apply_rules(network, options.layer_output_types, "layer_output_types",
                    [](nvinfer1::ILayer& layer, DataType type) {
                        for (int i = 0; i < layer.getNbOutputs(); ++i) {
                            layer.setOutputType(i, type);
                        }
                    });
    }
#endif
    apply_io_types(network, options);
}

} // namespace trtw
