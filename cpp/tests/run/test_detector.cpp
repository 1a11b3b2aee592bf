// Boxes of a call: read behind the engine, in its graph.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/detector.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using fake::call_of;
using fake::host;
using fake::Values;
using trtw::Detector;
using trtw::FoundBoxes;
using trtw::HeadKind;
using trtw::HeadSpec;
using trtw::RunnerOptions;
using trtw::Shape;

namespace {

constexpr std::size_t row_length = 6; // x1, y1, x2, y2, score, class

// Its output is its input: images of one row each.
std::shared_ptr<fake::Engine> rows() {
    fake::TensorInfo x = fake::input("x", -1);
    x.profiles = {trtw::ProfileRange{{1}, {60}, {60}}};
    auto engine = std::make_shared<fake::Engine>(
        std::vector{x, fake::output("y", -1)},
        [](const std::vector<Values>& in, float /*weight*/) { return std::vector<Values>{in[0]}; });
    engine->infer = [](const std::vector<Shape>& in) {
        return std::vector<Shape>{{in[0][0] / static_cast<std::int64_t>(row_length), 1, row_length}};
    };
    return engine;
}

HeadSpec spec() {
    HeadSpec spec;
    spec.height = spec.width = 8;
    spec.items = 1;
    spec.kind = HeadKind::rows;
    spec.boxes = {0, 0, row_length, 1};
    spec.scores = {0, 4, row_length, 1};
    spec.labels = {0, 5, row_length, 1};
    return spec;
}

Values row(float place, float score) {
    return {place, place, place + 2, place + 2, score, 3};
}

std::vector<FoundBoxes> found(Detector& detector, const Values& values, bool with_outputs = false) {
    trtw::Call call = call_of({host(values)});
    call.to_host = std::vector<bool>{with_outputs};
    const trtw::Runner::Finished finished = detector.run(call);
    if (with_outputs) {
        CHECK(fake::values(finished.outputs()[0]) == values);
    }
    return detector.found(finished);
}

} // namespace

TEST_CASE("the memory of boxes is that of the largest batch, and graphs of others stay right") {
    Detector detector{rows(), RunnerOptions{}, spec()};
    std::vector<Values> batches(11);
    for (std::size_t count = 1; count <= 10; ++count) {
        for (std::size_t image = 0; image < count; ++image) {
            const Values one = row(static_cast<float>(image), 0.5F);
            batches[count].insert(batches[count].end(), one.begin(), one.end());
        }
    }
    const auto play = [&](std::size_t count) {
        const std::vector<FoundBoxes> images = found(detector, batches[count]);
        CHECK(images.size() == count);
        for (std::size_t image = 0; image < images.size(); ++image) {
            CHECK(images[image].boxes.size() == 1);
            CHECK(images[image].boxes.at(0).corners[0] == static_cast<float>(image));
        }
    };
    for (int turn = 0; turn < 4; ++turn) {
        play(10);
    }
    const auto blocks = fake::allocations();
    for (int turn = 0; turn < 4; ++turn) {
        for (std::size_t count = 1; count <= 10; ++count) {
            play(count);
        }
    }
    CHECK(fake::allocations() == blocks);
    Detector growing{rows(), RunnerOptions{}, spec()};
    std::swap(batches[0], batches[1]);
    for (int turn = 0; turn < 3; ++turn) {
        for (std::size_t count = 2; count <= 10; ++count) { // each finds the graphs of those before it over
            CHECK(found(growing, batches[count]).size() == count);
            CHECK(found(growing, batches[2]).size() == 2);
        }
    }
}

TEST_CASE("boxes are those of the call, with and without a graph") {
    for (const bool cuda_graph : {true, false}) {
        RunnerOptions options;
        options.cuda_graph = cuda_graph;
        Detector detector{rows(), options, spec()};
        const auto launched = fake::launched_graphs();
        for (int turn = 0; turn < 8; ++turn) {
            const Values values = row(static_cast<float>(turn), 0.5F);
            const auto boxes = found(detector, values, turn % 2 == 0);
            REQUIRE(boxes.size() == 1);
            REQUIRE(boxes[0].boxes.size() == 1);
            CHECK(boxes[0].boxes[0].corners == std::array{values[0], values[1], values[2], values[3]});
            CHECK(boxes[0].boxes[0].score == 0.5F);
            CHECK(boxes[0].boxes[0].label == 3);
        }
        CHECK((fake::launched_graphs() > launched) == cuda_graph);
    }
}

TEST_CASE("further values come with the boxes") {
    HeadSpec with_more = spec();
    with_more.more = {0, 2, row_length, 1};
    with_more.values = 4;
    Detector detector{rows(), {}, with_more};
    for (int turn = 0; turn < 6; ++turn) {
        Values values = row(static_cast<float>(turn), 0.5F);
        const Values none = row(1, 0.0F);
        values.insert(values.end(), none.begin(), none.end());
        const auto boxes = found(detector, values);
        CHECK(boxes[0].more == std::vector<float>(values.begin() + 2, values.begin() + 6));
        CHECK(boxes[1].more.empty());
    }
}

TEST_CASE("masks come with the boxes") {
    HeadSpec masked = spec();
    masked.more = {0, 0, row_length, 1}; // its place weighs one pixel, its score
    masked.values = 1;
    masked.planes = {0, 4, 1, 1};
    masked.plane_height = masked.plane_width = 1;
    Detector detector{rows(), {}, masked};
    for (int turn = 0; turn < 8; ++turn) {
        Values values = row(1, 0.0F);
        for (const Values& one : {row(static_cast<float>(turn), 0.5F), row(1, 0.5F)}) {
            values.insert(values.end(), one.begin(), one.end());
        }
        const auto boxes = found(detector, values);
        CHECK(boxes[0].masks.empty());
        const std::uint32_t bits = turn == 0 ? 0 : turn == 7 ? 1 : 3; // at nought, and at the input's edge
        CHECK(boxes[1].masks == std::vector<std::uint32_t>(turn == 7 ? 1 : 2, bits));
        CHECK(boxes[2].masks == std::vector<std::uint32_t>(2, 3));
    }
}

TEST_CASE("calls of other numbers of images leave the memory of a graph alone") {
    Detector detector{rows(), {}, spec()};
    for (int turn = 0; turn < 12; ++turn) {
        Values values;
        const int images = 1 + turn % 3 * 4;
        for (int image = 0; image < images; ++image) {
            const Values one = row(static_cast<float>(10 * turn + image), image % 2 == 0 ? 0.5F : 0.0F);
            values.insert(values.end(), one.begin(), one.end());
        }
        const auto boxes = found(detector, values);
        REQUIRE(boxes.size() == static_cast<std::size_t>(images));
        for (std::size_t image = 0; image < boxes.size(); ++image) {
            REQUIRE(boxes[image].boxes.size() == (image % 2 == 0 ? 1 : 0));
            if (image % 2 == 0) {
                CHECK(boxes[image].boxes[0].corners[0] == values[image * row_length]);
            }
        }
    }
}

TEST_CASE("what is odd is told, image by image") {
    Detector detector{rows(), {}, spec()};
    Values values = row(1, 0.5F);
    const Values odd = row(1, 7.0F);
    values.insert(values.end(), odd.begin(), odd.end());
    const auto boxes = found(detector, values);
    CHECK_FALSE(boxes[0].odd);
    CHECK(boxes[1].odd);
    CHECK(boxes[1].boxes.empty());
}

TEST_CASE("several threads get their own boxes") {
    RunnerOptions options;
    options.slots = 2;
    Detector detector{rows(), options, spec()};
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
            for (int turn = 0; turn < 50; ++turn) {
                const Values values = row(static_cast<float>(100 * thread + turn), 0.5F);
                const auto boxes = found(detector, values);
                right += boxes[0].boxes.size() == 1 && boxes[0].boxes[0].corners[0] == values[0] ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(right == 200);
}

TEST_CASE("a head that does not fit is refused, and the detector stays usable") {
    HeadSpec wide = spec();
    wide.items = 2;
    Detector misfit{rows(), {}, wide};
    CHECK_THROWS_AS(found(misfit, row(1, 0.5F)), trtw::UsageProblem);
    wide.items = 0;
    CHECK_THROWS_AS(Detector(rows(), {}, wide), trtw::UsageProblem);

    const auto engine = rows();
    Detector detector{engine, {}, spec()};
    engine->open_output = 0; // its shape is known only behind the engine, where no graph and no head can be
    CHECK_THROWS_AS(found(detector, row(1, 0.5F)), trtw::UsageProblem);
    engine->open_output.reset();
    CHECK(found(detector, Values(12, 0.5F)).size() == 2);
}

TEST_CASE("without memory for the boxes a call fails, and the next one is right") {
    Detector detector{rows(), {}, spec()};
    {
        const fake::FullDevice full{4096};
        HeadSpec large = spec();
        large.max_dets = 1000;
        Detector hungry{rows(), {}, large};
        CHECK_THROWS_AS(found(hungry, row(1, 0.5F)), trtw::OutOfMemory);
    }
    CHECK(found(detector, row(1, 0.5F))[0].boxes.size() == 1);
}
