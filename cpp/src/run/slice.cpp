#include "run/slice.hpp"

#include "trtw/error.hpp"

namespace trtw {

Slice slice_at(const TensorInfo& tensor, const Shape& shape, std::int64_t index) {
    const std::int64_t length = shape.size() < 2 ? 0 : shape[1];
    if (index < -length || index >= length) {
        throw UsageProblem("Output '" + tensor.name + "' " + bracketed(shape) + " has no index " +
                           std::to_string(index) + " in its second dimension.");
    }
    Slice slice;
    slice.shape = shape;
    slice.shape.erase(slice.shape.begin() + 1);
    slice.rows = static_cast<std::size_t>(shape[0]);
    slice.width = byte_size(tensor, Shape(shape.begin() + 2, shape.end()));
    slice.pitch = byte_size(tensor, Shape(shape.begin() + 1, shape.end()));
    slice.offset = static_cast<std::size_t>(index < 0 ? index + length : index) * slice.width;
    return slice;
}

} // namespace trtw
