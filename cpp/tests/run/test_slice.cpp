#include "run/slice.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <vector>

using namespace trtw;

namespace {

TensorInfo tensor(std::size_t bits) {
    TensorInfo info;
    info.name = "y";
    info.bits = bits;
    return info;
}

// The values 0, 1, 2, … as an array of `shape`, and what the slice takes of them.
std::vector<std::int32_t> taken(const Shape& shape, std::int64_t index) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(volume(shape)));
    std::iota(values.begin(), values.end(), 0);
    const Slice slice = slice_at(tensor(32), shape, index);
    std::vector<std::int32_t> out(slice.bytes() / sizeof(std::int32_t), -1);
    CHECK(out.size() == static_cast<std::size_t>(volume(slice.shape)));
    for (std::size_t row = 0; row < slice.rows && slice.width > 0; ++row) {
        std::memcpy(reinterpret_cast<std::byte*>(out.data()) + row * slice.width,
                    reinterpret_cast<const std::byte*>(values.data()) + slice.offset + row * slice.pitch, slice.width);
    }
    return out;
}

using Values = std::vector<std::int32_t>;

} // namespace

TEST_CASE("a slice is numpy's array[:, index]") {
    CHECK(taken({2, 3, 2}, 0) == Values{0, 1, 6, 7});
    CHECK(taken({2, 3, 2}, 1) == Values{2, 3, 8, 9});
    CHECK(taken({2, 3, 2}, -1) == Values{4, 5, 10, 11});
    CHECK(taken({2, 3, 2}, -3) == Values{0, 1, 6, 7});
    CHECK(taken({1, 4, 1, 2}, 3) == Values{6, 7});
    CHECK(taken({3, 2}, -1) == Values{1, 3, 5}); // a column
    CHECK(taken({2, 1, 3}, 0) == Values{0, 1, 2, 3, 4, 5});
    CHECK(taken({0, 2, 3}, 1).empty());
    CHECK(taken({2, 2, 0}, 1).empty());
    CHECK(slice_at(tensor(32), {2, 3, 4, 5}, 0).shape == Shape{2, 4, 5});
}

TEST_CASE("a slice counts bytes of its type, beyond 4 GiB too") {
    const Slice slice = slice_at(tensor(16), {4, 32768, 151936}, -1);
    CHECK(slice.width == 303872U);
    CHECK(slice.pitch == std::size_t{303872} * 32768);
    CHECK(slice.offset == std::size_t{303872} * 32767);
    CHECK(slice.bytes() == 4 * 303872U);
}

TEST_CASE("an index that does not exist is refused") {
    for (const Shape& shape : {Shape{2, 3, 4}, Shape{2, 0, 4}, Shape{3}, Shape{}}) {
        CHECK_THROWS_AS(static_cast<void>(slice_at(tensor(32), shape, 3)), trtw::UsageProblem);
        CHECK_THROWS_AS(static_cast<void>(slice_at(tensor(32), shape, -4)), trtw::UsageProblem);
    }
    CHECK_THROWS_WITH(static_cast<void>(slice_at(tensor(32), {2, 3, 4}, 3)),
                      "Output 'y' [2, 3, 4] has no index 3 in its second dimension.");
    CHECK_THROWS_AS(static_cast<void>(slice_at(tensor(32), {5}, 0)), trtw::UsageProblem);
}
