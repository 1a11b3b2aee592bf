#include "vision/mask.hpp"

#include "trtw/error.hpp"
#include "trtw/head.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace trtw;

namespace {

// One box, which is all of an input of 4 x 40 pixels, weighs two planes of 2 x 2.
HeadSpec one_box() {
    HeadSpec spec;
    spec.kind = HeadKind::rows;
    spec.height = 4;
    spec.width = 40;
    spec.items = 1;
    spec.boxes = {0, 0, 0, 1};
    spec.scores = {0, 4, 0, 1};
    spec.labels = {0, 5, 0, 1};
    spec.more = {0, 6, 0, 1};
    spec.values = 2;
    spec.planes = {1, 0, 4, 1};
    spec.plane_height = spec.plane_width = 2;
    return spec;
}

FoundBoxes found(const HeadSpec& spec, const std::vector<float>& row, const std::vector<float>& planes) {
    const std::vector outputs{HeadTensor{row.data(), "float32", {1, 1, 8}},
                              HeadTensor{planes.data(), "float32", {1, 2, 2, 2}}};
    return find_boxes_cpu(spec, outputs).at(0);
}

const std::vector<float> row{0, 0, 40, 4, 0.5, 0, 1, 2};
// 1 * first + 2 * second is above nought on the left alone
const std::vector<float> planes{1, 1, 1, 1, 1, -1, 1, -1};

} // namespace

TEST_CASE("a mask has a bit for each pixel in the box, and its rows begin in a new word") {
    const FoundBoxes all = found(one_box(), row, planes);
    REQUIRE(all.masks.size() == 8); // rows of 40 pixels
    // from 3 at pixel 9.5 to -1 at pixel 29.5: above nought up to pixel 24
    for (std::size_t at = 0; at < 8; at += 2) {
        CHECK(all.masks[at] == 0x1FF'FFFF);
        CHECK(all.masks[at + 1] == 0);
    }
    std::vector<float> small = row;
    small[0] = 23.5; // pixels 24 and 25 of row 1
    small[1] = 1;
    small[2] = 26;
    small[3] = 2;
    CHECK(found(one_box(), small, planes).masks == std::vector<std::uint32_t>{1});
    small[3] = 1;
    const FoundBoxes none = found(one_box(), small, planes);
    CHECK(none.boxes.size() == 1);
    CHECK(none.masks.empty());
}

TEST_CASE("planes that are not finite are odd, also without a box") {
    std::vector<float> values = planes;
    values[7] = INFINITY;
    CHECK(found(one_box(), row, values).odd);
    HeadSpec spec = one_box();
    spec.conf = 0.9;
    CHECK(found(spec, row, values).odd);
    CHECK_FALSE(found(spec, row, planes).odd);
}

TEST_CASE("more masks than there is room for are odd") {
    HeadSpec spec = one_box();
    spec.height = spec.width = 8192; // 2^21 words
    std::vector<float> whole = row;
    whole[2] = whole[3] = 8192;
    CHECK(found(spec, whole, planes).odd);
    whole[3] = 100;
    CHECK(found(spec, whole, planes).masks.size() == 25600);
}

TEST_CASE("planes need weights and are no larger than the input") {
    HeadSpec spec = one_box();
    spec.values = 0;
    CHECK_THROWS_AS(spec.validate(), UsageProblem);
    spec = one_box();
    spec.plane_height = 5;
    CHECK_THROWS_AS(spec.validate(), UsageProblem);
    spec.plane_height = 0;
    CHECK_THROWS_AS(spec.validate(), UsageProblem);
    spec = one_box();
    spec.plane_height = 3; // of which there are two
    CHECK_THROWS_AS(found(spec, row, planes), UsageProblem);
}
