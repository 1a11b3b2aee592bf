// A TensorRT network: its creation and what it contains.
#pragma once

#include "build/profile.hpp"
#include "trt/types.hpp"

#include <NvInfer.h>

#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace trtw {

/// An empty explicit-batch network. `strongly_typed` is a choice in TensorRT 10 alone; see check_supported.
std::unique_ptr<nvinfer1::INetworkDefinition> create_network(nvinfer1::IBuilder& builder, bool strongly_typed);

std::vector<TensorDescription> network_inputs(const nvinfer1::INetworkDefinition& network);
std::vector<TensorDescription> network_outputs(const nvinfer1::INetworkDefinition& network);

/// The inputs as profile validation needs them.
std::vector<ProfileInput> profile_inputs(const nvinfer1::INetworkDefinition& network);

/// Whether a layer's output has a shape that is known at run time only: of fixed inputs, it depends on the data.
bool has_open_shapes(const nvinfer1::INetworkDefinition& network);

/// An input or output by name; throws UsageProblem that names the option it was asked for.
nvinfer1::ITensor& find_network_io(const nvinfer1::INetworkDefinition& network, const std::string& name,
                                   std::string_view option);

/// What kinds of data a network holds.
struct NetworkTypes {
    std::set<nvinfer1::DataType> quantized; ///< types that Q/DQ layers make or read
    std::set<nvinfer1::DataType> tensors;   ///< types of all layer outputs
};

/// The type that a layer quantises to or from; nothing for layers that do neither. `stated` is what TensorRT says of it
/// before the build: the type that a Quantize layer was given to make, that of a Dequantize layer's input. A weakly
/// typed network calls quantised tensors fp32 until it is built. In TensorRT 8 that makes no difference, as INT8 is
/// all there is; in later versions the Quantize layer that made such a tensor tells its type.
std::optional<nvinfer1::DataType> quantized_type(nvinfer1::LayerType layer, nvinfer1::DataType stated);

NetworkTypes network_types(const nvinfer1::INetworkDefinition& network);

} // namespace trtw
