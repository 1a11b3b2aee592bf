// Names of the nodes of an ONNX file, read without protobuf: TensorRT 8 reports a failing node by its index alone.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace trtw {

struct OnnxNode {
    std::string name;
    std::string op_type;
    std::string domain;       ///< empty for ONNX's own operators
    std::string first_output; ///< names the node where `name` is empty
};

/// The node of the main graph at an index, counted from 0. Nothing where the bytes are no ONNX model or have no such
/// node. Field numbers are those of onnx.proto: ModelProto.graph 7, GraphProto.node 1, NodeProto.output 2, .name 3,
/// .op_type 4, .domain 7.
std::optional<OnnxNode> onnx_node(std::span<const std::byte> model, std::size_t index);

/// The same, from a file.
std::optional<OnnxNode> onnx_node(const std::filesystem::path& file, std::size_t index);

} // namespace trtw
