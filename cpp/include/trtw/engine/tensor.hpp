// An engine's inputs and outputs as the runner sees them; free of TensorRT's types.
#pragma once

#include "trtw/engine/profile.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trtw::engine {

using Shape = std::vector<std::int64_t>;

struct TensorInfo {
    std::string name;
    bool is_input = false;
    std::string dtype; ///< numpy's name where it has the type, else "bfloat16", "fp8", …
    std::size_t bits = 0;
    Shape shape;                  ///< -1 for a dimension known at run time only
    bool on_host = false;         ///< TensorRT reads or writes it in host memory
    bool is_shape_tensor = false; ///< its values decide shapes
    bool is_linear = true;        ///< row-major; otherwise `format` says how it is laid out
    std::string format;
    std::string aliased_input; ///< of an output that TensorRT writes in an input's memory: that input; else empty
    std::vector<ProfileRange> profiles; ///< per profile; of inputs only
    std::vector<ProfileRange> values;   ///< per profile; of shape tensors where TensorRT tells
};

/// Product of the dimensions, 1 for a scalar; negative dimensions are the caller's mistake.
inline std::int64_t volume(const Shape& shape) noexcept {
    std::int64_t product = 1;
    for (const std::int64_t dim : shape) {
        product *= dim;
    }
    return product;
}

inline std::size_t byte_size(const TensorInfo& tensor, const Shape& shape) noexcept {
    return (static_cast<std::size_t>(volume(shape)) * tensor.bits + 7) / 8;
}

/// "[1, 3, ?, ?]"
std::string bracketed(const Shape& shape);

} // namespace trtw::engine
