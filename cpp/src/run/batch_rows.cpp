#include "run/batch_rows.hpp"

#include <cstring>
#include <utility>

namespace trtw {

RowLayout row_layout(const TensorInfo& tensor, Shape shape, std::size_t axis) {
    shape[axis] = 1;
    RowLayout layout;
    layout.outer = static_cast<std::size_t>(volume({shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)}));
    layout.inner = byte_size(tensor, {shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end()});
    return layout;
}

Shape with_rows(Shape shape, std::size_t axis, std::size_t rows) {
    shape[axis] = static_cast<std::int64_t>(rows);
    return shape;
}

void take_rows(void* batch, std::size_t rows, const void* from, std::size_t from_rows, RowRange range,
               const RowLayout& layout) {
    auto* target = static_cast<std::byte*>(batch);
    const auto* source = static_cast<const std::byte*>(from) + range.first * layout.inner;
    for (std::size_t o = 0; o < layout.outer; ++o, source += from_rows * layout.inner) {
        std::memcpy(target, source, range.count * layout.inner);
        target += range.count * layout.inner;
        for (std::size_t row = range.count; row < rows; ++row, target += layout.inner) {
            std::memcpy(target, source + (range.count - 1) * layout.inner, layout.inner);
        }
    }
}

void put_rows(void* to, std::size_t to_rows, RowRange range, const void* batch, std::size_t rows,
              const RowLayout& layout) {
    auto* target = static_cast<std::byte*>(to) + range.first * layout.inner;
    const auto* source = static_cast<const std::byte*>(batch);
    for (std::size_t o = 0; o < layout.outer; ++o) {
        std::memcpy(target, source, range.count * layout.inner);
        target += to_rows * layout.inner;
        source += rows * layout.inner;
    }
}

} // namespace trtw
