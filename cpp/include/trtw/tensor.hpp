// Inputs and outputs of networks and engines; free of TensorRT's types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace trtw {

using Shape = std::vector<std::int64_t>;

/// Smallest, best-tuned and largest value of each dimension (or of each element of a shape tensor).
struct ProfileRange {
    std::vector<std::int64_t> min;
    std::vector<std::int64_t> opt;
    std::vector<std::int64_t> max;

    bool operator==(const ProfileRange&) const = default;
};

/// Of an engine.
struct TensorInfo {
    std::string name;
    bool is_input = false;
    std::string dtype; ///< numpy's name where it has the type, else "bfloat16", "fp8", …
    std::size_t bits = 0;
    Shape shape;                  ///< -1 for a dimension known at run time only
    bool on_host = false;         ///< TensorRT reads or writes it in host memory
    bool is_shape_tensor = false; ///< its values decide shapes
    bool is_linear = true;        ///< row-major; otherwise `format` says how it is laid out
    /// Of a format with the channels (third dimension from the last) last: their number is rounded up to a multiple of
    /// this, 1 in HWC and 8 in HWC8. 0: another format.
    std::int64_t channel_group = 0;
    std::string format;
    std::string aliased_input; ///< of an output that TensorRT writes in an input's memory: that input; else empty
    std::vector<ProfileRange> profiles; ///< per profile; of inputs only
    std::vector<ProfileRange> values;   ///< per profile; of shape tensors where TensorRT tells
};

/// The dtype of tensors whose elements are of a type of C++.
template <class T>
constexpr std::string_view dtype_of() {
    if constexpr (std::is_same_v<T, float>) {
        return "float32";
    } else if constexpr (std::is_same_v<T, bool>) {
        return "bool";
    } else if constexpr (std::is_same_v<T, std::uint8_t>) {
        return "uint8";
    } else {
        static_assert(std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) != 2, "no tensor has such elements");
        return sizeof(T) == 1 ? "int8" : sizeof(T) == 4 ? "int32" : "int64";
    }
}

/// An input or output of a network.
struct TensorDescription {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
    bool is_input = false;
    bool is_shape_tensor = false; ///< its values, not its shape, belong into a profile
};

/// Where the tensor of a name is; nullopt where there is none.
std::optional<std::size_t> index_of(std::span<const TensorInfo> tensors, std::string_view name) noexcept;

/// Whether its elements are floating-point numbers.
bool holds_floats(const TensorInfo& tensor) noexcept;

/// Whether a dimension is known at run time only.
bool is_dynamic(const Shape& shape) noexcept;

/// Product of the dimensions, none of them negative; 1 for a scalar. Throws UsageProblem where 64 bits do not hold it.
std::int64_t volume(const Shape& shape);

/// Bytes of a tensor in this shape, rounded up to a whole byte. Throws UsageProblem where 64 bits do not hold its bits.
std::size_t byte_size(const TensorInfo& tensor, const Shape& shape);

inline std::size_t channel_axis(const Shape& shape) noexcept {
    return shape.size() - 3;
}

/// Bytes of what the engine reads or writes: as `byte_size`, with the channels that the format adds.
std::size_t bound_bytes(const TensorInfo& tensor, const Shape& shape);

/// "1x3x224x224"; "scalar" without dimensions.
std::string shape_text(std::span<const std::int64_t> shape);

/// "[1, 3, ?, ?]"
std::string bracketed(const Shape& shape);

/// The range that holds an input of this shape (-1: open). A fixed dimension has its own size alone; an open one the
/// range that the profile tells, or any where the profile tells none (TensorRT checks the shape itself then).
ProfileRange complete_range(const Shape& shape, const ProfileRange& told);

} // namespace trtw
