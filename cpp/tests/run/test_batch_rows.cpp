#include "run/batch_rows.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>

using trtw::put_rows;
using trtw::row_layout;
using trtw::RowLayout;
using trtw::Shape;
using trtw::take_rows;
using trtw::TensorInfo;
using Bytes = std::vector<std::uint16_t>;

namespace {

TensorInfo of_two_bytes() {
    TensorInfo tensor;
    tensor.bits = 16;
    return tensor;
}

} // namespace

TEST_CASE("rows lie in runs for each index before the batch axis") {
    const Shape shape{2, 7, 3, 5};
    for (const auto& [axis, outer, inner] :
         {std::array<std::size_t, 3>{0, 1, 7 * 3 * 5 * 2}, {1, 2, 3 * 5 * 2}, {2, 14, 5 * 2}, {3, 42, 2}}) {
        const RowLayout layout = row_layout(of_two_bytes(), shape, axis);
        CHECK(layout.outer == outer);
        CHECK(layout.inner == inner);
    }
    CHECK(row_layout(of_two_bytes(), {0, 4}, 0).row_bytes() == 8); // of an extent that is not known yet
}

TEST_CASE("a part of the rows fills a batch, and the last one the rest of it") {
    const Bytes given{0, 1, 2, 3, 10, 11, 12, 13}; // [2, 4, 1]
    const RowLayout layout = row_layout(of_two_bytes(), {2, 4, 1}, 1);
    Bytes batch(8, 99);
    take_rows(batch.data(), 4, given.data(), 4, {1, 2}, layout);
    CHECK(batch == Bytes{1, 2, 2, 2, 11, 12, 12, 12});
    take_rows(batch.data(), 2, given.data(), 4, {2, 2}, layout);
    CHECK(batch == Bytes{2, 3, 12, 13, 11, 12, 12, 12});
}

TEST_CASE("the first rows of a batch go to a part of the rows") {
    const Bytes batch{1, 2, 7, 7, 11, 12, 7, 7};
    Bytes result(6, 0); // [2, 3, 1]
    put_rows(result.data(), 3, {1, 2}, batch.data(), 4, row_layout(of_two_bytes(), {2, 4, 1}, 1));
    CHECK(result == Bytes{0, 1, 2, 0, 11, 12});
}
