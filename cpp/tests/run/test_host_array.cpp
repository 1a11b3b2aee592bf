#include "run/host_array.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

using namespace trtw;

namespace {

using Strides = std::vector<std::int64_t>;

std::vector<std::int32_t> packed(const std::int32_t* start, const Shape& shape, const Strides& strides) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(volume(shape)), -1);
    copy_strided(out.data(), start, shape, strides, sizeof(std::int32_t));
    return out;
}

std::vector<std::int32_t> counting(int count) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    return values;
}

} // namespace

TEST_CASE("strided copies follow every kind of stride") {
    const auto v = counting(24); // as [2, 3, 4]
    CHECK(packed(v.data(), {2, 3, 4}, {48, 16, 4}) == v);
    CHECK(packed(v.data(), {3, 2}, {4, 12}) == std::vector<std::int32_t>{0, 3, 1, 4, 2, 5}); // transposed
    CHECK(packed(v.data() + 3, {4}, {-4}) == std::vector<std::int32_t>{3, 2, 1, 0});         // backwards
    CHECK(packed(v.data() + 5, {2, 2}, {0, 4}) == std::vector<std::int32_t>{5, 6, 5, 6});    // repeated
    CHECK(packed(v.data(), {2, 1, 2}, {48, 999, 4}) == std::vector<std::int32_t>{0, 1, 12, 13});
    CHECK(packed(v.data(), {3}, {8}) == std::vector<std::int32_t>{0, 2, 4});
    CHECK(packed(v.data() + 7, {}, {}) == std::vector<std::int32_t>{7});
    CHECK(packed(v.data(), {2, 0, 3}, {4, 4, 4}).empty());
}

TEST_CASE("arrays of any rank, order of dimensions and size of element are copied, whole and in pieces") {
    std::mt19937 random{5};
    for (int round = 0; round < 400; ++round) {
        const std::size_t element = std::array<std::size_t, 6>{1, 2, 4, 8, 3, 16}[random() % 6];
        Shape shape(1 + random() % 4);
        for (std::int64_t& dim : shape) {
            dim = 1 + random() % (random() % 4 == 0 ? 40 : 5);
        }
        std::vector<std::size_t> order(shape.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), random);
        Strides strides(shape.size());
        auto step = static_cast<std::int64_t>(element);
        std::int64_t first = 0;
        for (const std::size_t d : order) {
            strides[d] = step;
            step *= shape[d] + random() % 2;
            if (random() % 5 == 0) { // backwards
                first += strides[d] * (shape[d] - 1);
                strides[d] = -strides[d];
            }
        }
        std::vector<std::uint8_t> source(static_cast<std::size_t>(step));
        std::ranges::generate(source, [&] { return static_cast<std::uint8_t>(random()); });
        std::vector<std::uint8_t> expected;
        for (std::int64_t i = 0; i < volume(shape); ++i) {
            std::int64_t rest = i;
            std::int64_t at = first;
            for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
                at += rest % shape[d] * strides[d];
            }
            expected.insert(expected.end(), source.begin() + at,
                            source.begin() + at + static_cast<std::int64_t>(element));
        }
        const StridedCopy copy{shape, strides, element};
        for (const std::size_t wanted : {std::size_t{1} << 30U, std::size_t{200}, std::size_t{7}}) {
            const std::size_t pieces = copy.pieces(wanted);
            REQUIRE(pieces > 0);
            std::vector<std::uint8_t> target(expected.size() + 1, 0xA5);
            std::vector<int> told(expected.size());
            for (std::size_t piece = pieces; piece-- > 0;) {
                const Rows rows = copy.copy_piece(target.data(), source.data() + first, piece, pieces);
                for (std::size_t row = 0; row < rows.count; ++row) {
                    for (std::size_t i = 0; i < rows.width; ++i) {
                        ++told[rows.offset + row * rows.pitch + i];
                    }
                }
            }
            CHECK(target.back() == 0xA5);
            target.pop_back();
            CHECK(target == expected);
            CHECK(std::ranges::count(told, 1) == static_cast<std::ptrdiff_t>(told.size()));
        }
    }
}

TEST_CASE("pieces of a picture are bands of all its planes; those of a batch are whole pictures") {
    const auto cut = [](const Shape& shape, const Strides& strides) {
        const StridedCopy copy{shape, strides, 4};
        const std::size_t pieces = copy.pieces(128 << 10);
        const Rows rows = copy.rows(0, pieces);
        return std::vector<std::size_t>{pieces, rows.width, rows.pitch, rows.count};
    };
    const std::size_t plane = 224 * 224 * 4;
    CHECK(cut({1, 3, 224, 224}, {0, 4, 2688, 12}) == std::vector<std::size_t>{5, plane / 5 / 4 * 4, plane, 3});
    CHECK(cut({8, 3, 224, 224}, {150528 * 4, 4, 2688, 12}) ==
          std::vector<std::size_t>{37, plane / 37 / 4 * 4, plane, 24});
    CHECK(cut({64, 3, 64, 64}, {49152, 4, 768, 12}) == std::vector<std::size_t>{24, 98304, 3145728, 1});
}

TEST_CASE("contiguity is told as numpy tells it") {
    CHECK(is_contiguous({2, 3}, Strides{12, 4}, 4));
    CHECK_FALSE(is_contiguous({2, 3}, Strides{4, 8}, 4));
    CHECK_FALSE(is_contiguous({2, 3}, Strides{24, 4}, 4));
    CHECK(is_contiguous({1, 3}, Strides{999, 4}, 4)); // the stride of a single row does not matter
    CHECK(is_contiguous({0, 3}, Strides{1, 1}, 4));
    CHECK(is_contiguous({}, Strides{}, 4));
}

TEST_CASE("strides that lack a dimension describe nothing") {
    const std::vector<std::int64_t> none;
    CHECK_FALSE(trtw::is_contiguous({4}, none, 4));
    CHECK_FALSE(trtw::is_contiguous({0, 4}, std::vector<std::int64_t>{4}, 4));
    CHECK(trtw::is_contiguous({}, none, 4));
}

TEST_CASE("NaN and infinity are counted in every float") {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float infinite = std::numeric_limits<float>::infinity();
    const std::array<float, 5> floats{1.0F, nan, infinite, -infinite, std::numeric_limits<float>::max()};
    CHECK(count_nonfinite(floats.data(), floats.size(), "float32") == 3);
    const std::array<double, 3> doubles{0.0, std::nan(""), 1e308};
    CHECK(count_nonfinite(doubles.data(), doubles.size(), "float64") == 1);
    const std::array<std::uint16_t, 4> halves{0x7C00, 0x7BFF, 0xFE00, 0x0001};
    CHECK(count_nonfinite(halves.data(), halves.size(), "float16") == 2);
    const std::array<std::uint16_t, 3> brains{0x7F80, 0x7F7F, 0xFFC0};
    CHECK(count_nonfinite(brains.data(), brains.size(), "bfloat16") == 2);
    CHECK(count_nonfinite(floats.data(), floats.size(), "int32") == 0);
}

TEST_CASE("an array may begin at any address") { // fails where the sanitisers are on
    std::array<std::byte, 4 * sizeof(double) + 1> room{};
    const float infinite = std::numeric_limits<float>::infinity();
    std::memcpy(room.data() + 1, &infinite, sizeof infinite);
    CHECK(count_nonfinite(room.data() + 1, 4, "float32") == 1);
    CHECK(count_nonfinite(room.data() + 1, 4, "float16") == 1);
    CHECK(count_nonfinite(room.data() + 1, 4, "float64") == 0);
}
