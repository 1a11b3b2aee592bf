#include "trt/plan_file.hpp"

#include "trtw/error.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace trtw {

namespace {

constexpr std::size_t length_bytes = 4;
// Protobuf keys (field number << 3 | wire type) that may follow ir_version in an ONNX ModelProto.
constexpr std::string_view onnx_second_keys = "\x12\x1a\x22\x28\x32\x3a\x42\x72";

std::string_view as_text(std::span<const std::byte> bytes, std::size_t most = 64) {
    return {reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), most)};
}

bool starts_with_any_case(std::string_view text, std::string_view prefix) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return text.size() >= prefix.size() &&
           std::equal(prefix.begin(), prefix.end(), text.begin(), [&](char a, char b) { return lower(b) == a; });
}

// ModelProto starts with field 1, ir_version, a small number.
bool looks_like_onnx(std::string_view text) {
    return text.size() >= 3 && text[0] == '\x08' && text[1] > 0 && text[1] < 64 &&
           onnx_second_keys.find(text[2]) != std::string_view::npos;
}

std::string_view foreign_kind(std::string_view text) {
    if (text.starts_with("version https://git-lfs")) {
        return "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`";
    }
    if (text.starts_with(std::string_view{"PK\x03\x04", 4})) {
        return "a zip archive or a PyTorch checkpoint; export the model to ONNX and build an engine from that";
    }
    if (text.size() >= 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5) {
        return "a Python pickle or an old PyTorch checkpoint; export the model to ONNX and build an engine from that";
    }
    if (starts_with_any_case(text, "<!doctype") || starts_with_any_case(text, "<html")) {
        return "a web page, most likely an error page of a download; download it again";
    }
    if (text.size() > 9 && text[8] == '{' && text[9] == '"') {
        return "a safetensors file; export the model to ONNX and build an engine from that";
    }
    if (looks_like_onnx(text)) {
        return "an ONNX model; build an engine from it with `build-engine`";
    }
    return {};
}

std::uint32_t little_endian(std::span<const std::byte> bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < length_bytes; ++i) {
        value |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * i);
    }
    return value;
}

} // namespace

PlanBytes read_plan(std::span<const std::byte> bytes) {
    if (bytes.empty()) {
        throw UsageProblem("The engine file is empty; build it again.");
    }
    const bool has_header = bytes.size() > length_bytes && bytes[length_bytes] == std::byte{'{'};
    const std::size_t length = has_header ? little_endian(bytes) : 0;
    const auto rest = bytes.subspan(has_header ? length_bytes : 0);
    // The header's length may look like another file's first bytes: 640 is that of a pickle.
    if (has_header && length >= 2 && length < rest.size() && rest[length - 1] == std::byte{'}'}) {
        return {rest.subspan(length), std::string{as_text(rest, length)}};
    }
    if (const std::string_view kind = foreign_kind(as_text(bytes)); !kind.empty()) {
        throw UsageProblem("This is not a TensorRT engine but " + std::string{kind} + ".");
    }
    if (has_header) {
        throw UsageProblem("The engine starts with a metadata header that is damaged or truncated: it declares " +
                           std::to_string(length) + " bytes of JSON in a file of " + std::to_string(bytes.size()) +
                           ".");
    }
    return {bytes, {}};
}

} // namespace trtw
