// Tells from its first bytes whether a file is a plan, and what it is otherwise.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace trtw {

/// A plan's bytes, and the JSON text that a header before them held ("" without one).
struct PlanBytes {
    std::span<const std::byte> plan;
    std::string metadata;
};

/// Strips the header that ultralytics writes (length in 4 bytes, little-endian; JSON; plan).
/// Throws UsageProblem, saying what the bytes are, where they are no plan: nothing at all, an ONNX model, a zip
/// archive or PyTorch checkpoint, a pickle, safetensors, a Git LFS pointer, a web page, a broken header.
/// A plan itself is not recognised by a magic number: TensorRT judges it.
PlanBytes read_plan(std::span<const std::byte> bytes);

} // namespace trtw
