// Rows of a batch in host memory, whichever dimension counts them.
#pragma once

#include "trtw/tensor.hpp"

#include <cstddef>

namespace trtw {

/// CUDA's limit for one dimension of a grid.
constexpr std::size_t most_batch_rows = 65535;

/// How the rows of a batch lie in row-major memory: for every index of the dimensions before the batch axis the rows,
/// one after the other, each in a run of `inner` bytes.
struct RowLayout {
    std::size_t outer = 1;
    std::size_t inner = 0;

    [[nodiscard]] std::size_t row_bytes() const noexcept { return outer * inner; }
};

/// The extent of `axis` does not matter.
RowLayout row_layout(const TensorInfo& tensor, Shape shape, std::size_t axis);

/// The shape with another extent of `axis`.
Shape with_rows(Shape shape, std::size_t axis, std::size_t rows);

/// Some rows of a larger batch.
struct RowRange {
    std::size_t first = 0;
    std::size_t count = 0;
};

/// Fills a batch of `rows` rows with the range of one of `from_rows`, then with the last row of the range again.
void take_rows(void* batch, std::size_t rows, const void* from, std::size_t from_rows, RowRange range,
               const RowLayout& layout);

/// Copies the first rows of a batch of `rows` to the range of one of `to_rows`.
void put_rows(void* to, std::size_t to_rows, RowRange range, const void* batch, std::size_t rows,
              const RowLayout& layout);

} // namespace trtw
