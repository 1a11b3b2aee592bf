#include "vision/staging.hpp"

#include "trtw/error.hpp"
#include "vision_specs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

using namespace trtw;

namespace {

ImageView of_size(int height, int width) {
    return {nullptr, height, width, std::ptrdiff_t{width} * 3};
}

// Rows apart, as in a crop.
struct Picture {
    Picture(int height, int width, std::mt19937& random, int gap = 5)
        : bytes(static_cast<std::size_t>(height) * (static_cast<std::size_t>(width) * 3 + static_cast<unsigned>(gap))) {
        for (std::uint8_t& value : bytes) {
            value = static_cast<std::uint8_t>(random());
        }
        view = {bytes.data(), height, width, std::ptrdiff_t{width} * 3 + gap};
    }
    std::vector<std::uint8_t> bytes;
    ImageView view;
};

// What the GPU does, on the host: one call of `grey_levels` a pixel.
std::vector<std::uint8_t> as_the_kernel(const DeviceImage& item, const LetterboxSpec& spec) {
    std::vector<std::uint8_t> result(spec.item_bytes());
    for (int y = 0; y < spec.height; ++y) {
        for (int x = 0; x < spec.width; ++x) {
            int bgr[3];
            grey_levels(item, spec.pad_value, y, x, bgr);
            for (int c = 0; c < 3; ++c) {
                result[output_index(spec.layout, spec.height, spec.width, c, y, x)] = static_cast<std::uint8_t>(bgr[c]);
            }
        }
    }
    return result;
}

std::vector<std::uint8_t> staged_in_pieces(const ImageView& image, const LetterboxSpec& spec, int rows_per_piece) {
    DeviceImage item = stage(image, spec);
    const int rows = staged_rows(item);
    std::vector<std::uint8_t> staged(static_cast<std::size_t>(rows) * static_cast<std::size_t>(item.row_bytes));
    for (int first = 0; first < rows; first += rows_per_piece) {
        copy_rows(image, item, first, std::min(rows_per_piece, rows - first), staged.data() + first * item.row_bytes);
    }
    item.pixels = staged.data();
    return as_the_kernel(item, spec);
}

void check_like_cpu(const Picture& picture, const LetterboxSpec& spec, int rows_per_piece) {
    std::vector<std::uint8_t> expected(spec.item_bytes());
    letterbox_cpu(picture.view, spec, expected.data());
    CAPTURE(picture.view.height);
    CAPTURE(picture.view.width);
    CAPTURE(spec.height);
    CAPTURE(spec.width);
    CHECK(staged_in_pieces(picture.view, spec, rows_per_piece) == expected);
    CHECK(as_the_kernel(in_place(stage(picture.view, spec), picture.view, picture.view.pixels), spec) == expected);
}

} // namespace

TEST_CASE("taps lie inside the source, side by side, in rising order, and share its weight") {
    for (const int source : {1, 2, 3, 5, 63, 64, 65, 719, 720, 1080, 4001}) {
        for (int size = 1; size <= 700; size += size < 70 ? 1 : 37) {
            const double ratio = resize_ratio(size, source);
            int previous = -1;
            bool sound = true;
            for (int position = 0; position < size; ++position) {
                const Tap tap = tap_at(Axis::rows, position, ratio, source);
                // Beyond the first and the last row both parts are of that row.
                const bool edge = tap.first == source - 1 || (position + 0.5) * ratio < 0.5;
                sound = sound && tap.first >= 0 && tap.second == (edge ? tap.first : tap.first + 1);
                // Shrunk to half or less, no row is a tap of two rows of the result.
                sound = sound && (2 * size <= source ? tap.first > previous : tap.first >= previous - 1);
                sound = sound && tap.first_weight + tap.second_weight == weight_one && tap.second_weight >= 0;
                previous = tap.second;
            }
            CAPTURE(source);
            CAPTURE(size);
            CHECK(sound);
        }
    }
}

TEST_CASE("only taps are staged of an image that is shrunk to less than half its height") {
    const auto staged = [](int height, int width, int target) {
        const DeviceImage item = stage(of_size(height, width), grey_level_spec(target, target));
        return std::pair{item.taps_only, staged_rows(item)};
    };
    CHECK(staged(1080, 1920, 320) == std::pair{true, 360});
    CHECK(staged(720, 1280, 320) == std::pair{true, 360});
    CHECK(staged(1080, 1920, 640) == std::pair{true, 720});
    CHECK(staged(720, 1280, 640) == std::pair{false, 720}); // exactly half
    CHECK(staged(639, 639, 320) == std::pair{false, 639});
    CHECK(staged(640, 640, 320) == std::pair{false, 640});
    CHECK(staged(641, 641, 320) == std::pair{true, 640});
    CHECK(staged(1, 1, 320) == std::pair{false, 1});
    CHECK(staged(3, 5000, 320) == std::pair{true, 2}); // one row of the result
    CHECK(staged(100, 50, 320) == std::pair{false, 100});
    CHECK_THROWS_AS(stage(of_size(0, 4), grey_level_spec(8, 8)), trtw::UsageProblem);
}

TEST_CASE("staged rows are the taps of the rows of the result, in order, or all rows") {
    for (int height = 1; height <= 400; ++height) {
        const DeviceImage item = stage(of_size(height, 7), grey_level_spec(64, 64));
        REQUIRE(staged_rows(item) <= height);
        bool sound = true;
        for (int staged = 0; staged < staged_rows(item); ++staged) {
            const Tap tap = tap_at(Axis::rows, staged / 2, item.row_ratio, height);
            const int expected = !item.taps_only ? staged : staged % 2 == 0 ? tap.first : tap.second;
            sound = sound && source_row(item, staged) == expected;
        }
        CAPTURE(height);
        CHECK(sound);
    }
}

TEST_CASE("rows are copied tightly, whatever the distance of the source's") {
    std::mt19937 random{1};
    for (const int width : {3, 1100, 1400, 4097}) { // tiny, below a page, above one, and two rows above 24 KiB
        const auto bytes = std::ptrdiff_t{width} * 3;
        for (const int gap : {0, 5, 1500}) {
            for (const int height : {1, 16, 17, 33, 38, 95}) {
                const Picture picture{height, width, random, gap};
                const DeviceImage item = stage(picture.view, grey_level_spec(16, std::max(width, 16)));
                const int rows = staged_rows(item);
                std::vector<std::uint8_t> staged(static_cast<std::size_t>(rows * bytes) + 1, 0xEE);
                staged.back() = 0xAB;
                copy_rows(picture.view, item, 0, rows, staged.data());
                CHECK(staged.back() == 0xAB); // nothing behind the last row
                for (int row = 0; row < rows; ++row) {
                    const std::uint8_t* source = picture.view.pixels + source_row(item, row) * picture.view.row_bytes;
                    CHECK(std::equal(source, source + bytes, staged.data() + row * bytes));
                }
            }
        }
    }
}

TEST_CASE("what the kernel computes is what the CPU computes") {
    std::mt19937 random{7};
    const std::pair<int, int> sizes[] = {{1, 1},   {1, 90},  {90, 1},  {2, 2},   {31, 31}, {63, 64},   {64, 63},
                                         {64, 64}, {65, 65}, {66, 65}, {95, 97}, {3, 999}, {1080, 40}, {257, 129}};
    for (const auto& [height, width] : sizes) {
        for (const int target : {1, 31, 32, 33, 100}) {
            check_like_cpu({height, width, random}, grey_level_spec(target, target), 7);
        }
    }
    const auto side = [&](unsigned most) { return 1 + static_cast<int>(random() % most); };
    for (int trial = 0; trial < 300; ++trial) {
        LetterboxSpec spec = grey_level_spec(side(60), side(60));
        spec.placement = trial % 2 == 0 ? Placement::centre : Placement::top_left;
        spec.rounding = trial % 3 == 0 ? Rounding::down : Rounding::nearest;
        spec.scale_up = trial % 5 != 0;
        check_like_cpu({side(300), side(300), random}, spec, side(50));
    }
}

TEST_CASE("an image that is read in place may have its rows in falling order") {
    std::mt19937 random{11};
    const Picture picture{90, 70, random};
    const ImageView flipped{picture.view.pixels + 89 * picture.view.row_bytes, 90, 70, -picture.view.row_bytes};
    const LetterboxSpec spec = grey_level_spec(32, 48);
    std::vector<std::uint8_t> expected(spec.item_bytes());
    letterbox_cpu(flipped, spec, expected.data());
    CHECK(as_the_kernel(in_place(stage(flipped, spec), flipped, flipped.pixels), spec) == expected);
}

TEST_CASE("an image that is read in place may have its rows apart, or all in one place") {
    std::mt19937 random{12};
    const Picture picture{90, 70, random};
    const std::ptrdiff_t row = picture.view.row_bytes;
    for (const ImageView& view : {ImageView{picture.view.pixels + 5 * row + 12, 60, 50, row}, // a crop
                                  ImageView{picture.view.pixels, 30, 70, 3 * row},            // every third row
                                  ImageView{picture.view.pixels + 7 * row, 80, 70, 0}}) {     // one row, repeated
        for (const int side : {32, 128}) {
            const LetterboxSpec spec = grey_level_spec(side, side);
            std::vector<std::uint8_t> expected(spec.item_bytes());
            letterbox_cpu(view, spec, expected.data());
            CAPTURE(view.row_bytes);
            CHECK(as_the_kernel(in_place(stage(view, spec), view, view.pixels), spec) == expected);
        }
    }
}

TEST_CASE("only an image that keeps its size or grows does not shrink") {
    const auto shrinks_to = [](int height, int width, int side) {
        return shrinks(stage(of_size(height, width), grey_level_spec(side, side)));
    };
    CHECK_FALSE(shrinks_to(48, 64, 64));
    CHECK_FALSE(shrinks_to(24, 32, 64));
    CHECK_FALSE(shrinks_to(64, 64, 64));
    CHECK(shrinks_to(65, 64, 64));
    CHECK(shrinks_to(1, 65, 64));
    CHECK(shrinks_to(720, 1280, 64));
}
