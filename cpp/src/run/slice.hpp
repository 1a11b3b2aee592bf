// One index of an array's second dimension: where it lies in row-major memory.
#pragma once

#include "trtw/tensor.hpp"

namespace trtw {

/// What numpy's `array[:, index]` is made of: `rows` pieces of `width` bytes, the first at `offset`, each `pitch` bytes
/// after the one before.
struct Slice {
    Shape shape; ///< the array's without its second dimension
    std::size_t offset = 0;
    std::size_t pitch = 0;
    std::size_t width = 0;
    std::size_t rows = 0;

    [[nodiscard]] std::size_t bytes() const noexcept { return rows * width; }
};

/// `index` counts from the end where it is negative. `tensor` gives the name and the type, `shape` is this call's.
/// Throws UsageProblem where there is no second dimension or no such index in it.
Slice slice_at(const TensorInfo& tensor, const Shape& shape, std::int64_t index);

} // namespace trtw
