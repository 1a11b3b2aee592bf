// State between calls, and graphs.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

using fake::call_of;
using fake::host;
using fake::run;
using fake::state;
using fake::Values;
using trtw::Runner;
using trtw::RunnerOptions;

namespace {

RunnerOptions with_state(bool graph) {
    RunnerOptions options;
    options.state = {{"h_next", "h"}};
    options.cuda_graph = graph;
    return options;
}

} // namespace

TEST_CASE("state feeds back, with graphs and without") {
    for (const bool graph : {true, false}) {
        Runner runner{fake::recurrent(-1), with_state(graph)};
        const Values h{8};
        runner.reset_state({{1, host(h)}});
        float expected = 8;
        for (float x = 1; x < 9; ++x) {
            const Values in{x};
            CHECK(run(runner, {host(in), state()}) == Values{x + expected + 1});
            expected += x;
        }
        CHECK(runner.status().graphs == (graph ? 2 : 0));
        const Values again{3};
        CHECK(run(runner, {host(again), host(h)}) == Values{12}); // given in a call
        CHECK(run(runner, {host(again), state()}) == Values{15});
    }
}

TEST_CASE("state of a fixed shape starts from zeros, of a dynamic one it needs a value") {
    const Values x{1, 2, 3, 4};
    Runner fixed{fake::recurrent(4), with_state(true)};
    CHECK(run(fixed, {host(x), state()}) == Values{2, 3, 4, 5});
    fixed.reset_state();
    CHECK(run(fixed, {host(x), state()}) == Values{2, 3, 4, 5});
    Runner dynamic{fake::recurrent(-1), with_state(true)};
    CHECK_THROWS_WITH_AS(dynamic.run(call_of({host(x), state()})), doctest::Contains("has no value yet"),
                         trtw::UsageProblem);
}

TEST_CASE("a steady loop allocates nothing and replays its graphs") {
    Runner runner{fake::recurrent(4), with_state(true)};
    const Values x{1, 2, 3, 4};
    for (int i = 0; i < 4; ++i) {
        run(runner, {host(x), state()});
    }
    const std::size_t allocations = fake::allocations();
    const std::size_t graphs = fake::launched_graphs();
    const std::size_t waits = fake::waits();
    for (int i = 0; i < 6; ++i) {
        run(runner, {host(x), state()});
    }
    CHECK(fake::allocations() == allocations);
    CHECK(fake::launched_graphs() == graphs + 6);
    CHECK(fake::waits() == waits);
}

TEST_CASE("one runner takes the state of another") {
    Runner first{fake::recurrent(-1), with_state(true)};
    Runner second{fake::recurrent(-1), with_state(true)};
    const Values x{1, 1};
    const Values h{4, 5};
    first.reset_state({{1, host(h)}});
    run(first, {host(x), state()});
    second.take_state(first);
    CHECK(run(second, {host(x), state()}) == Values{7, 8});
    CHECK(run(first, {host(x), state()}) == Values{7, 8});
}
