// A TensorRT network: its creation and what it contains.
#pragma once

#include "trtw/engine/profile.hpp"
#include "trtw/engine/types.hpp"

#include <NvInfer.h>

#include <memory>
#include <set>
#include <vector>

namespace trtw::engine {

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
    std::set<nvinfer1::DataType> quantized; ///< types that Q/DQ layers produce or read
    std::set<nvinfer1::DataType> tensors;   ///< types of all layer outputs
};

NetworkTypes network_types(const nvinfer1::INetworkDefinition& network);

} // namespace trtw::engine
