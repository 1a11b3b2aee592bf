#include "build/onnx_nodes.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

using namespace trtw;

namespace {

// The protobuf wire format, written by hand: the reader is checked against the format, not against a library.
std::string varint(std::uint64_t value) {
    std::string bytes;
    for (; value >= 0x80U; value >>= 7U) {
        bytes += static_cast<char>((value & 0x7FU) | 0x80U);
    }
    return bytes + static_cast<char>(value);
}

std::string field(unsigned number, const std::string& contents) {
    return varint(number << 3U | 2U) + varint(contents.size()) + contents;
}

std::string number_field(unsigned number, std::uint64_t value) {
    return varint(number << 3U) + varint(value);
}

std::string node(const std::string& name, const std::string& op_type, const std::string& output,
                 const std::string& domain = "") {
    return field(1, "x") + field(2, output) + (name.empty() ? "" : field(3, name)) + field(4, op_type) +
           (domain.empty() ? "" : field(7, domain));
}

std::string model(const std::vector<std::string>& nodes) {
    std::string graph;
    for (const std::string& one : nodes) {
        graph += field(1, one);
    }
    graph += field(2, "main") + field(5, std::string(300, 'w')); // name, an initializer
    // ir_version, producer, graph, opset
    return number_field(1, 9) + field(2, "test") + field(7, graph) + field(8, number_field(2, 17));
}

std::span<const std::byte> bytes(const std::string& text) {
    return std::as_bytes(std::span{text});
}

const std::string model_bytes =
    model({node("conv1", "Conv", "c"), node("", "Relu", "r"), node("norm", "GroupNorm", "y", "com.example")});

} // namespace

TEST_CASE("nodes are found by their index") {
    const auto conv = onnx_node(bytes(model_bytes), 0);
    REQUIRE(conv);
    CHECK(conv->name == "conv1");
    CHECK(conv->op_type == "Conv");
    CHECK(conv->first_output == "c");
    CHECK(conv->domain.empty());
    const auto norm = onnx_node(bytes(model_bytes), 2);
    REQUIRE(norm);
    CHECK(norm->domain == "com.example");
}

TEST_CASE("a node without a name is told by its output") {
    const auto relu = onnx_node(bytes(model_bytes), 1);
    REQUIRE(relu);
    CHECK(relu->name.empty());
    CHECK(relu->first_output == "r");
}

TEST_CASE("no such node, no model, no file") {
    CHECK_FALSE(onnx_node(bytes(model_bytes), 3));
    CHECK_FALSE(onnx_node(std::span<const std::byte>{}, 0));
    CHECK_FALSE(onnx_node(bytes("not a model at all"), 0));
    CHECK_FALSE(onnx_node(std::filesystem::path{"/no/such/file.onnx"}, 0));
}

TEST_CASE("a model cut short at any place is survived") {
    for (std::size_t length = 0; length < model_bytes.size(); ++length) {
        CHECK_NOTHROW(static_cast<void>(onnx_node(bytes(model_bytes.substr(0, length)), 2)));
    }
    // The last byte of the graph is missing, so its length is a lie.
    CHECK_FALSE(onnx_node(bytes(model_bytes.substr(0, model_bytes.size() / 2)), 0));
}

TEST_CASE("a length beyond the end is no reason to read there") {
    CHECK_FALSE(onnx_node(bytes(varint(7U << 3U | 2U) + varint(~std::uint64_t{0})), 0));
    CHECK_FALSE(onnx_node(bytes(std::string(20, '\xFF')), 0));
}

TEST_CASE("a file is read like its bytes") {
    const auto path = std::filesystem::temp_directory_path() / "trtw-test-nodes.onnx";
    std::ofstream{path, std::ios::binary} << model_bytes;
    const auto found = onnx_node(path, 0);
    std::filesystem::remove(path);
    REQUIRE(found);
    CHECK(found->name == "conv1");
}
