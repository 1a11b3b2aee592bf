#include "trtw/letterbox.hpp"

#include "trtw/error.hpp"
#include "vision/half.hpp"
#include "vision_specs.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace trtw;

namespace {

std::vector<std::uint8_t> run(const std::vector<std::uint8_t>& pixels, int height, int width,
                              const LetterboxSpec& spec) {
    std::vector<std::uint8_t> out(spec.item_bytes(), 0);
    letterbox_cpu({pixels.data(), height, width, width * 3}, spec, out.data());
    return out;
}

} // namespace

TEST_CASE("an image of the target's size stays as it is") {
    std::vector<std::uint8_t> pixels;
    for (int i = 0; i < 4 * 5 * 3; ++i) {
        pixels.push_back(static_cast<std::uint8_t>(i * 4));
    }
    CHECK(run(pixels, 4, 5, grey_level_spec(4, 5)) == pixels);
}

TEST_CASE("the odd pixel of padding lies at the bottom and the right") {
    LetterboxSpec spec = grey_level_spec(10, 13);
    const Geometry centred = letterbox_geometry(10, 10, spec);
    CHECK(centred.new_width == 10);
    CHECK(centred.left == 1);
    CHECK(centred.top == 0);
    spec.placement = Placement::top_left;
    CHECK(letterbox_geometry(10, 10, spec).left == 0);
}

TEST_CASE("sizes are rounded as asked, and never to nothing") {
    LetterboxSpec spec = grey_level_spec(416, 416);
    CHECK(letterbox_geometry(333, 500, spec).new_height == 277); // 277.056
    CHECK(letterbox_geometry(427, 640, spec).new_height == 278); // 277.55
    spec.rounding = Rounding::down;
    CHECK(letterbox_geometry(427, 640, spec).new_height == 277);
    CHECK(letterbox_geometry(1, 5000, spec).new_height == 1);
    spec.scale_up = false;
    CHECK(letterbox_geometry(10, 20, spec).new_width == 20);
}

TEST_CASE("sides that 32 bits cannot count are refused") {
    const LetterboxSpec spec = grey_level_spec(4, 2);
    CHECK_THROWS_AS(letterbox_geometry(1, 800'000'000, spec), UsageProblem);
    CHECK_THROWS_AS(letterbox_geometry(1 << 29, 1, spec), UsageProblem);
    CHECK(letterbox_geometry(1 << 28, 1, spec).new_height == 4);
}

TEST_CASE("a stretched image fills the input, whatever its shape") {
    LetterboxSpec spec = grey_level_spec(4, 2);
    spec.placement = Placement::stretch;
    spec.scale_up = false;
    const Geometry geometry = letterbox_geometry(1, 7, spec);
    CHECK(geometry.new_height == 4);
    CHECK(geometry.new_width == 2);
    CHECK(geometry.top == 0);
    CHECK(geometry.left == 0);
    CHECK(geometry.source_width == 7);
    const std::vector<std::uint8_t> pixels(1 * 7 * 3, 9);
    CHECK(run(pixels, 1, 7, spec) == std::vector<std::uint8_t>(4 * 2 * 3, 9));
}

TEST_CASE("padding is normalised like any grey level") {
    LetterboxSpec spec = grey_level_spec(2, 4);
    spec.dtype = Element::float32;
    spec.scale = 1.0 / 255.0;
    spec.mean = {0.5, 0.5, 0.5};
    spec.std = {0.25, 0.25, 0.25};
    spec.placement = Placement::top_left;
    const std::vector<std::uint8_t> pixels(2 * 2 * 3, 255);
    std::vector<float> out(2 * 4 * 3);
    letterbox_cpu({pixels.data(), 2, 2, 6}, spec, out.data());
    CHECK(out.front() == doctest::Approx(2.0));
    CHECK(out.back() == doctest::Approx((114.0 / 255.0 - 0.5) / 0.25));
}

TEST_CASE("a pixel of eight values is one of three, and zeros") {
    std::vector<std::uint8_t> pixels;
    for (int i = 0; i < 3 * 4 * 3; ++i) {
        pixels.push_back(static_cast<std::uint8_t>(i * 7));
    }
    for (const Element element : {Element::float32, Element::float16, Element::uint8}) {
        LetterboxSpec spec = grey_level_spec(5, 7);
        spec.dtype = element;
        spec.channels = Channels::rgb;
        const std::vector<std::uint8_t> narrow = run(pixels, 3, 4, spec);
        spec.layout = Layout::hwc8;
        const std::size_t size = element_bytes(element);
        std::vector<std::uint8_t> wide(spec.item_bytes(), 1);
        REQUIRE(wide.size() == std::size_t{5} * 7 * 8 * size);
        letterbox_cpu({pixels.data(), 3, 4, 12}, spec, wide.data());
        std::vector<std::uint8_t> expected(wide.size(), 0);
        for (std::size_t i = 0; i < narrow.size(); ++i) {
            expected[i / (3 * size) * 8 * size + i % (3 * size)] = narrow[i];
        }
        CHECK(wide == expected);
    }
}

TEST_CASE("rows may lie apart") {
    const std::vector<std::uint8_t> tight{1, 2, 3, 4, 5, 6};
    const std::vector<std::uint8_t> apart{1, 2, 3, 99, 99, 4, 5, 6};
    const LetterboxSpec spec = grey_level_spec(2, 1);
    std::vector<std::uint8_t> out(spec.item_bytes());
    letterbox_cpu({apart.data(), 2, 1, 5}, spec, out.data());
    CHECK(out == tight);
}

TEST_CASE("senseless specs and empty images are refused") {
    LetterboxSpec spec = grey_level_spec(0, 4);
    CHECK_THROWS_AS(spec.validate(), trtw::UsageProblem);
    spec = grey_level_spec(4, 4);
    CHECK_THROWS_AS(letterbox_geometry(0, 4, spec), trtw::UsageProblem);
    spec.scale = 0.5; // as uint8 there is no normalisation
    CHECK_THROWS_AS(spec.validate(), trtw::UsageProblem);
    spec.dtype = Element::float32;
    spec.std[1] = 0.0;
    CHECK_THROWS_AS(spec.validate(), trtw::UsageProblem);
    spec.std[1] = std::nan("");
    CHECK_THROWS_AS(spec.validate(), trtw::UsageProblem);
}

TEST_CASE("half precision is rounded to the nearest, ties to even") {
    CHECK(float_to_half(1.0F) == 0x3C00);
    CHECK(float_to_half(-2.0F) == 0xC000);
    CHECK(float_to_half(65504.0F) == 0x7BFF);
    CHECK(float_to_half(65520.0F) == 0x7C00);
    CHECK(float_to_half(1.0F + 1.0F / 2048.0F) == 0x3C00); // a tie, down to even
    CHECK(float_to_half(1.0F + 3.0F / 2048.0F) == 0x3C02); // a tie, up to even
    CHECK(float_to_half(5.9604645e-8F) == 0x0001);
    CHECK(float_to_half(2.9802322e-8F) == 0x0000);
    CHECK(float_to_half(6.1035156e-5F) == 0x0400);
    CHECK(float_to_half(std::numeric_limits<float>::quiet_NaN()) == 0x7E00);
    CHECK(float_to_half(-std::numeric_limits<float>::infinity()) == 0xFC00);
}
