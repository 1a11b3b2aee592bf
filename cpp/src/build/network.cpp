#include "build/network.hpp"

#include "trt/failure.hpp"
#include "trt/logger.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"

namespace trtw {

namespace {

TensorDescription describe(const nvinfer1::ITensor& tensor, bool is_input) {
    return {tensor.getName(), std::string{dtype_name(tensor.getType())}, to_vector(tensor.getDimensions()), is_input,
            tensor.isShapeTensor()};
}

// The type that a Quantize layer was given to make, else that of a layer's first input as the network states it now.
nvinfer1::DataType stated_type(const nvinfer1::ILayer& layer) {
#if NV_TENSORRT_MAJOR >= 10
    if (layer.getType() == nvinfer1::LayerType::kQUANTIZE) {
        return static_cast<const nvinfer1::IQuantizeLayer&>(layer).getToType();
    }
#endif
    return layer.getNbInputs() > 0 ? layer.getInput(0)->getType() : nvinfer1::DataType::kFLOAT;
}

} // namespace

std::unique_ptr<nvinfer1::INetworkDefinition> create_network(nvinfer1::IBuilder& builder, bool strongly_typed) {
    nvinfer1::NetworkDefinitionCreationFlags flags = 0;
#if NV_TENSORRT_MAJOR < 10
    flags |= 1U << static_cast<std::uint32_t>(nvinfer1::NetworkDefinitionCreationFlag::kEXPLICIT_BATCH);
#elif TRTW_TRT_WEAK_TYPING
    if (strongly_typed) {
        flags |= 1U << static_cast<std::uint32_t>(nvinfer1::NetworkDefinitionCreationFlag::kSTRONGLY_TYPED);
    }
#endif
    static_cast<void>(strongly_typed);
    const LogCapture capture{logger().buffer()};
    std::unique_ptr<nvinfer1::INetworkDefinition> network{builder.createNetworkV2(flags)};
    if (!network) {
        raise_device("creating a network", capture.errors());
    }
    return network;
}

std::vector<TensorDescription> network_inputs(const nvinfer1::INetworkDefinition& network) {
    std::vector<TensorDescription> inputs;
    for (int i = 0; i < network.getNbInputs(); ++i) {
        inputs.push_back(describe(*network.getInput(i), true));
    }
    return inputs;
}

std::vector<TensorDescription> network_outputs(const nvinfer1::INetworkDefinition& network) {
    std::vector<TensorDescription> outputs;
    for (int i = 0; i < network.getNbOutputs(); ++i) {
        outputs.push_back(describe(*network.getOutput(i), false));
    }
    return outputs;
}

std::vector<ProfileInput> profile_inputs(const nvinfer1::INetworkDefinition& network) {
    std::vector<ProfileInput> inputs;
    for (int i = 0; i < network.getNbInputs(); ++i) {
        const nvinfer1::ITensor& tensor = *network.getInput(i);
        ProfileInput input{tensor.getName(), to_vector(tensor.getDimensions()), {}, tensor.isShapeTensor()};
        for (std::size_t dim = 0; dim < input.shape.size(); ++dim) {
            const char* symbol = tensor.getDimensionName(static_cast<std::int32_t>(dim));
            input.dimension_names.emplace_back(symbol != nullptr ? symbol : "");
        }
        inputs.push_back(std::move(input));
    }
    return inputs;
}

bool has_open_shapes(const nvinfer1::INetworkDefinition& network) {
    for (int i = 0; i < network.getNbLayers(); ++i) {
        const nvinfer1::ILayer& layer = *network.getLayer(i);
        for (int out = 0; out < layer.getNbOutputs(); ++out) {
            const nvinfer1::Dims dims = layer.getOutput(out)->getDimensions();
            if (dims.nbDims < 0 || is_dynamic(to_vector(dims))) {
                return true;
            }
        }
    }
    return false;
}

nvinfer1::ITensor& find_network_io(const nvinfer1::INetworkDefinition& network, const std::string& name,
                                   std::string_view option) {
    for (int i = 0; i < network.getNbInputs(); ++i) {
        if (network.getInput(i)->getName() == name) {
            return *network.getInput(i);
        }
    }
    for (int i = 0; i < network.getNbOutputs(); ++i) {
        if (network.getOutput(i)->getName() == name) {
            return *network.getOutput(i);
        }
    }
    throw UsageProblem(std::string{option} + ": the model has no input or output '" + name + "'.");
}

std::optional<nvinfer1::DataType> quantized_type(nvinfer1::LayerType layer, nvinfer1::DataType stated) {
    if (layer != nvinfer1::LayerType::kQUANTIZE && layer != nvinfer1::LayerType::kDEQUANTIZE) {
        return std::nullopt;
    }
#if NV_TENSORRT_MAJOR < 10
    static_cast<void>(stated);
    return nvinfer1::DataType::kINT8;
#else
    switch (stated) {
    case nvinfer1::DataType::kINT8:
    case nvinfer1::DataType::kFP8:
    case nvinfer1::DataType::kINT4:
#if TRTW_IN_HEADERS(TRTW_TRT_HAS_FP4)
    case nvinfer1::DataType::kFP4:
#endif
        return stated;
    default:
        return std::nullopt;
    }
#endif
}

NetworkTypes network_types(const nvinfer1::INetworkDefinition& network) {
    NetworkTypes types;
    for (int i = 0; i < network.getNbLayers(); ++i) {
        const nvinfer1::ILayer& layer = *network.getLayer(i);
        for (int out = 0; out < layer.getNbOutputs(); ++out) {
            types.tensors.insert(layer.getOutput(out)->getType());
        }
        if (const auto type = quantized_type(layer.getType(), stated_type(layer))) {
            types.quantized.insert(*type);
        }
    }
    return types;
}

} // namespace trtw
