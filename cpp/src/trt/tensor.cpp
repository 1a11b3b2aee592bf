#include "trtw/tensor.hpp"

#include "trtw/error.hpp"

#include <algorithm>
#include <limits>

namespace trtw {

std::optional<std::size_t> index_of(std::span<const TensorInfo> tensors, std::string_view name) noexcept {
    const auto found = std::ranges::find(tensors, name, &TensorInfo::name);
    return found == tensors.end() ? std::nullopt : std::optional{static_cast<std::size_t>(found - tensors.begin())};
}

bool holds_floats(const TensorInfo& tensor) noexcept {
    return tensor.dtype.find("float") != std::string::npos || tensor.dtype.starts_with("fp");
}

bool is_dynamic(const Shape& shape) noexcept {
    return std::any_of(shape.begin(), shape.end(), [](std::int64_t dim) { return dim < 0; });
}

std::int64_t volume(const Shape& shape) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
        return 0; // whatever the others are
    }
    std::int64_t product = 1;
    for (const std::int64_t dim : shape) {
        if (__builtin_mul_overflow(product, dim, &product)) {
            throw UsageProblem("The shape " + bracketed(shape) + " has more elements than 64 bits can count.");
        }
    }
    return product;
}

std::size_t byte_size(const TensorInfo& tensor, const Shape& shape) {
    std::int64_t bits = 0;
    if (__builtin_mul_overflow(volume(shape), static_cast<std::int64_t>(tensor.bits), &bits) ||
        __builtin_add_overflow(bits, 7, &bits)) {
        throw UsageProblem("Tensor '" + tensor.name + "' in the shape " + bracketed(shape) +
                           " is larger than any memory.");
    }
    return static_cast<std::size_t>(bits / 8);
}

std::size_t bound_bytes(const TensorInfo& tensor, const Shape& shape) {
    if (tensor.channel_group <= 1 || shape.size() < 3) { // a wrong shape is refused elsewhere
        return byte_size(tensor, shape);
    }
    Shape padded = shape;
    std::int64_t& channels = padded[channel_axis(padded)];
    channels += (tensor.channel_group - channels % tensor.channel_group) % tensor.channel_group;
    return byte_size(tensor, padded);
}

std::string bracketed(const Shape& shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        text += (i == 0 ? "" : ", ") + (shape[i] < 0 ? std::string{"?"} : std::to_string(shape[i]));
    }
    return text + "]";
}

std::string shape_text(std::span<const std::int64_t> shape) {
    std::string text;
    for (const std::int64_t dim : shape) {
        text += text.empty() ? std::to_string(dim) : "x" + std::to_string(dim);
    }
    return text.empty() ? "scalar" : text;
}

ProfileRange complete_range(const Shape& shape, const ProfileRange& told) {
    const bool dynamic = is_dynamic(shape);
    const std::size_t rank = shape.size();
    if (dynamic && told.min.size() == rank && told.opt.size() == rank && told.max.size() == rank) {
        return told;
    }
    ProfileRange range{shape, shape, shape};
    for (std::size_t i = 0; i < rank; ++i) {
        if (shape[i] < 0) {
            range.min[i] = 0;
            range.max[i] = std::numeric_limits<std::int32_t>::max();
        }
    }
    return range;
}

} // namespace trtw
