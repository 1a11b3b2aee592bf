#include "trtw/head.hpp"

#include "trtw/error.hpp"
#include "vision/head.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace trtw;

namespace {

// Two classes, three anchors: [1, 4 + 2, 3].
HeadSpec anchors() {
    HeadSpec spec;
    spec.height = spec.width = 100;
    spec.items = 3;
    spec.classes = 2;
    spec.boxes = {0, 0, 1, 3};
    spec.scores = {0, 12, 1, 3};
    spec.form = BoxForm::centre;
    spec.label_major = true;
    spec.iou = 0.5;
    return spec;
}

FoundBoxes found(const HeadSpec& spec, const std::vector<float>& values, Shape shape = {1, 6, 3}) {
    return find_boxes_cpu(spec, std::vector{HeadTensor{values.data(), "float32", std::move(shape)}}).at(0);
}

const std::vector<float> two_alike{
    10,  10,   50,  // centre x
    10,  10,   50,  // centre y
    8,   8,    4,   // width
    8,   8,    4,   // height
    0.5, 0.75, 0,   // first class
    0,   0.25, 0.5, // second class
};

} // namespace

TEST_CASE("the better of two boxes of a class stays, and one of another class with it") {
    const FoundBoxes boxes = found(anchors(), two_alike);
    REQUIRE(boxes.boxes.size() == 3);
    CHECK(boxes.boxes[0].score == 0.75F);
    CHECK(boxes.boxes[0].corners == std::array{6.0F, 6.0F, 14.0F, 14.0F});
    CHECK(boxes.boxes[1].label == 1);
    CHECK(boxes.boxes[1].corners == std::array{48.0F, 48.0F, 52.0F, 52.0F});
    CHECK(boxes.boxes[2].score == 0.25F);
    HeadSpec all = anchors();
    all.iou.reset();
    CHECK(found(all, two_alike).boxes.size() == 4);
    all.max_dets = 2;
    CHECK(found(all, two_alike).boxes.size() == 2);
}

TEST_CASE("further values of an item go with its box, and are finite") {
    HeadSpec spec = anchors();
    spec.more = {0, 18, 1, 3};
    spec.values = 2;
    std::vector<float> values = two_alike;
    values.insert(values.end(), {1, 2, 3, 10, 20, 30});
    const FoundBoxes boxes = found(spec, values, {1, 8, 3});
    REQUIRE(boxes.boxes.size() == 3);
    CHECK(boxes.more == std::vector<float>{2, 20, 3, 30, 2, 20});
    values.back() = std::nanf("");
    CHECK(found(spec, values, {1, 8, 3}).odd);
    values.back() = 30;
    values[18] = std::nanf(""); // of a box that a better one drops
    CHECK(found(spec, values, {1, 8, 3}).odd);
    spec.conf = 0.6;
    CHECK_FALSE(found(spec, values, {1, 8, 3}).odd); // of no candidate
    spec.values = 3;
    CHECK_THROWS_AS(found(spec, values, {1, 8, 3}), UsageProblem);
}

TEST_CASE("what no detector gives is odd") {
    for (const float value : {std::nanf(""), 1.5F, -0.5F}) {
        std::vector<float> values = two_alike;
        values[14] = value; // a score
        CHECK(found(anchors(), values).odd);
    }
    std::vector<float> values = two_alike;
    values[0] = INFINITY; // of a candidate
    CHECK(found(anchors(), values).odd);
}

TEST_CASE("outputs that do not fit the head are refused") {
    CHECK_THROWS_AS(found(anchors(), two_alike, {1, 6, 2}), UsageProblem);
    CHECK_THROWS_AS(found(anchors(), two_alike, {}), UsageProblem);
    HeadSpec spec = anchors();
    spec.boxes[0] = 1;
    CHECK_THROWS_AS(found(spec, two_alike), UsageProblem);
    spec = anchors();
    spec.boxes[1] = -1;
    CHECK_THROWS_AS(found(spec, two_alike), UsageProblem);
    spec = anchors();
    spec.scores[2] = (std::int64_t{1} << 62) + (std::int64_t{1} << 40); // times the items, it wraps
    CHECK_THROWS_AS(found(spec, two_alike), UsageProblem);
    CHECK_THROWS_AS(find_boxes_cpu(anchors(), std::vector{HeadTensor{two_alike.data(), "int32", {1, 6, 3}}}),
                    UsageProblem);
}

TEST_CASE("heads that make no sense are refused") {
    const auto refused = [](const auto& change) {
        HeadSpec spec = anchors();
        change(spec);
        CHECK_THROWS_AS(spec.validate(), UsageProblem);
    };
    refused([](HeadSpec& spec) { spec.height = 0; });
    refused([](HeadSpec& spec) { spec.items = 0; });
    refused([](HeadSpec& spec) { spec.classes = 0; });
    refused([](HeadSpec& spec) { spec.classes = 1 << 30; });
    refused([](HeadSpec& spec) { spec.conf = 1.0; });
    refused([](HeadSpec& spec) { spec.iou = 0.0; });
    refused([](HeadSpec& spec) { spec.max_dets = 0; });
    refused([](HeadSpec& spec) { spec.strides = {8, 0}; });
    refused([](HeadSpec& spec) { spec.strides = {2, 4, 8, 16, 32}; });
    refused([](HeadSpec& spec) { spec.kind = HeadKind::cells; });
}

TEST_CASE("halves become the floats that they stand for") {
    CHECK(head::half_to_float(0x3C00) == 1.0F);
    CHECK(head::half_to_float(0xC500) == -5.0F);
    CHECK(head::half_to_float(0x0001) == 0x1p-24F);
    CHECK(head::half_to_float(0x83FF) == -1023 * 0x1p-24F);
    CHECK(head::half_to_float(0x7BFF) == 65504.0F);
    CHECK(std::isinf(head::half_to_float(0xFC00)));
    CHECK(std::isnan(head::half_to_float(0x7E00)));
    CHECK(std::signbit(head::half_to_float(0x8000)));
}
