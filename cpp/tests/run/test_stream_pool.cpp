// Pushes of streams in batches: what comes out, what is refused, and what it costs.
#include "fake_cuda.hpp"
#include "stream_pool_engine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <thread>

using namespace streams;

TEST_CASE("streams of any age in one batch are as each alone, with graphs and without") {
    for (const bool graphs : {true, false}) {
        StreamPool pool{engine(), options(graphs)};
        std::map<std::int64_t, Values> sums;
        std::mt19937 random{3};
        for (int round = 0; round < 40; ++round) {
            if (sums.size() < 11) {
                sums[pool.open()];
            }
            Streams streams;
            for (const auto& [stream, past] : sums) {
                if (random() % 3 != 0) {
                    streams.push_back(stream);
                }
            }
            std::shuffle(streams.begin(), streams.end(), random);
            if (streams.empty()) {
                continue;
            }
            const std::size_t steps = round % 4 == 0 ? 2 : 4; // now one profile, now the other
            const Values x = chunks(streams.size(), static_cast<float>(round), steps);
            const Values y = push(pool, streams, x, static_cast<std::int64_t>(steps)).y;
            REQUIRE(y.size() == x.size());
            for (std::size_t s = 0; s < streams.size(); ++s) {
                Values& past = sums[streams[s]];
                for (std::size_t t = s * steps; t < (s + 1) * steps; ++t) {
                    CHECK(y[t] == x[t] + expected_h(past)[0]);
                }
                past.push_back(std::accumulate(x.begin() + static_cast<std::ptrdiff_t>(s * steps),
                                               x.begin() + static_cast<std::ptrdiff_t>((s + 1) * steps), 0.0F));
            }
            if (random() % 6 == 0) {
                pool.close(streams.front());
                sums.erase(streams.front());
            }
        }
        for (const auto& [stream, past] : sums) {
            check_state(pool, stream, past);
        }
        CHECK(pool.open_streams() == sums.size());
        CHECK(pool.graph_status() == (graphs ? "on: 5 graphs captured" : "off: switched off"));
    }
}

TEST_CASE("buckets are what the profiles allow") {
    StreamPool pool{engine(), options()};
    CHECK(pool.buckets() == std::vector<std::size_t>{1, 2, 4});
}

TEST_CASE("outputs without a batch axis come once") {
    StreamPool pool{engine(), options()};
    Streams streams;
    for (int i = 0; i < 6; ++i) {
        streams.push_back(pool.open());
    }
    CHECK(push(pool, streams, chunks(6, 0)).gain == Values{2});
}

TEST_CASE("a refused push changes no state of any stream") {
    StreamPool pool{engine(), options()};
    Streams streams;
    for (int i = 0; i < 5; ++i) {
        streams.push_back(pool.open());
    }
    push(pool, streams, chunks(5, 1));
    const auto refused = [&](const Streams& some, const Values& x, std::int64_t steps, const char* words) {
        CHECK_THROWS_WITH_AS(push(pool, some, x, steps), doctest::Contains(words), UsageProblem);
    };
    refused({streams[0], 99}, chunks(2, 1), 4, "never opened");
    refused({streams[0], streams[0]}, chunks(2, 1), 4, "named twice");
    refused({}, chunks(1, 1), 4, "at least one");
    refused({streams[0]}, chunks(2, 1), 4, "for 1 stream axis 0 of [?, ?] is 1");
    refused({streams[0]}, chunks(1, 1, 3), 3, "no profile of the engine allows");
    // Three streams need a batch of 2, which would run, and then one of 1, which TensorRT refuses in these shapes.
    refused({streams[0], streams[1], streams[2]}, chunks(3, 1, 1), 1, "refuses this batch");
    Input strange = array(one, {1, 1});
    strange.source = trtw::Source::device;
    const auto none = [](std::size_t, const Shape&) -> void* { return nullptr; };
    const Streams first{streams[0]};
    const Values x = chunks(1, 0);
    CHECK_THROWS_AS(pool.push(first, {strange, fake::state(), fake::state(), array(one, {1})}, none), UsageProblem);
    const Values h(6, 0);
    CHECK_THROWS_WITH_AS(
        pool.push(first, {array(x, {1, 4}), array(h, {2, 1, 3}), fake::state(), array(one, {1})}, none),
        doctest::Contains("'h' is a state"), UsageProblem);
    CHECK_THROWS_WITH_AS(pool.push(first, {fake::state(), fake::state(), fake::state(), array(one, {1})}, none),
                         doctest::Contains("'x' is not a state"), UsageProblem);
    for (std::size_t s = 0; s < streams.size(); ++s) {
        check_state(pool, streams[s], {static_cast<float>(4 * (4 * s + 1) + 6)});
    }
}

TEST_CASE("a push that finds no memory, or fails to start, changes no state") {
    const auto made = engine();
    StreamPool pool{made, options()};
    Streams streams;
    for (int i = 0; i < 5; ++i) {
        streams.push_back(pool.open());
    }
    push(pool, {streams[0]}, chunks(1, 0));
    {
        const fake::FullDevice full;
        CHECK_THROWS_AS(push(pool, streams, chunks(5, 0)), trtw::OutOfMemory);
    }
    check_state(pool, streams[0], {6});
    made->failure = "the engine fails";
    CHECK_THROWS_AS(push(pool, streams, chunks(5, 0)), trtw::DeviceFailure);
    made->failure.clear();
    check_state(pool, streams[0], {6});
    check_state(pool, streams[4], {});
    push(pool, streams, chunks(5, 0));
    check_state(pool, streams[0], {6, 6});
}

TEST_CASE("a warm pool replays graphs and allocates nothing") {
    StreamPoolOptions timed = options();
    timed.timing = true;
    StreamPool pool{engine(), timed};
    CHECK_THROWS_WITH_AS(pool.timing(), doctest::Contains("Nothing was pushed"), UsageProblem);
    const Values x = chunks(1, 0);
    pool.warm_up({array(x, {1, 4}), fake::state(), fake::state(), array(one, {1})});
    const Streams streams{pool.open(), pool.open(), pool.open(), pool.open(), pool.open()};
    const std::size_t allocations = fake::allocations();
    const std::size_t graphs = fake::launched_graphs();
    CHECK(pool.graph_status() == "on: 3 graphs captured");
    for (std::size_t count = 1; count <= streams.size(); ++count) {
        push(pool, {streams.begin(), streams.begin() + static_cast<std::ptrdiff_t>(count)}, chunks(count, 0));
    }
    CHECK(fake::allocations() == allocations);
    CHECK(fake::launched_graphs() == graphs + 6); // five streams take two
    CHECK(pool.timing().compute_ms == 2);
    check_state(pool, streams[0], {6, 6, 6, 6, 6});
    StreamPool untimed{engine(), options()};
    CHECK_THROWS_WITH_AS(untimed.timing(), doctest::Contains("without timing"), UsageProblem);
}

TEST_CASE("inputs with gaps and of fewer rows than the batch are packed") {
    StreamPool pool{engine(), options()};
    Streams streams;
    for (int i = 0; i < 5; ++i) {
        streams.push_back(pool.open());
    }
    Values wide(5 * 8, 99);
    const Values x = chunks(5, 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
        wide[2 * i] = x[i];
    }
    Input gaps = array(wide, {5, 4});
    gaps.strides = {32, 8};
    Values y(20);
    Values gain(1);
    for (int round = 0; round < 3; ++round) {
        pool.push(streams, {gaps, fake::state(), fake::state(), array(one, {1})},
                  [&](std::size_t output, const Shape&) -> void* { return output == 0 ? y.data() : gain.data(); });
    }
    CHECK(y[19] == 19 + 2 * 70);
    check_state(pool, streams[4], {70, 70, 70});
}

TEST_CASE("page-locked chunks are read where they lie, in however many batches they are run") {
    constexpr std::int64_t length = 10'000;
    auto made = std::make_shared<fake::Engine>(
        std::vector{tensor("x", {-1, length}, {{{1, length}, {4, length}, {4, length}}}), tensor("y", {-1, length})},
        [](const std::vector<Values>& in, float /*weight*/) { return std::vector<Values>{in[0]}; });
    made->infer = [](const std::vector<Shape>& in) { return std::vector<Shape>{in[0]}; };
    StreamPoolOptions plain;
    plain.batch_axes = {{"x", 0}, {"y", 0}};
    StreamPool pool{made, plain};
    Streams streams;
    for (int i = 0; i < 8; ++i) {
        streams.push_back(pool.open());
    }
    const Values x = chunks(8, 0, length);
    const fake::PageLocked locked{x.data(), x.size() * sizeof(float)};
    for (int round = 0; round < 4; ++round) {
        Values y(x.size());
        const auto before = fake::copies_from(x.data(), x.size() * sizeof(float));
        pool.push(streams, {array(x, {8, length})}, [&](std::size_t, const Shape&) -> void* { return y.data(); });
        CHECK(y == x);
        CHECK(fake::copies_from(x.data(), x.size() * sizeof(float)) == before + 2);
    }
}

TEST_CASE("options that do not fit the engine are refused") {
    const auto refused = [](auto change, const char* words) {
        StreamPoolOptions changed = options();
        change(changed);
        CHECK_THROWS_WITH_AS(StreamPool(engine(), changed), doctest::Contains(words), UsageProblem);
    };
    refused([](auto& o) { o.capacity = 0; }, "got 0");
    refused([](auto& o) { o.buckets = {}; }, "at least one bucket");
    refused([](auto& o) { o.batch_axes["z"] = 0; }, "no input or output 'z'");
    refused([](auto& o) { o.batch_axes["x"] = 2; }, "has no axis 2");
    refused([](auto& o) { o.state[0].output = "z"; }, "'z', which the engine does not have");
    refused([](auto& o) { o.state[0].input = "z"; }, "'z', which the engine does not have");
    refused([](auto& o) { o.state[0].output = "k_next"; }, "k_next");
    refused([](auto& o) { o.state[0].output_axis = 3; }, "has no axis 3");
    refused([](auto& o) { o.state[0].input_axis = 3; }, "has no axis 3");
    refused([](auto& o) { o.state[1].initial = array(one, {1, 1}); }, "got [1, 1]");
    StreamPoolOptions crossed = options(); // what comes out has its rows elsewhere
    crossed.state[0].output_axis = 0;
    StreamPool pool{engine(), crossed};
    const Streams streams{pool.open()};
    CHECK_THROWS_WITH_AS(push(pool, streams, chunks(1, 0)), doctest::Contains("batch axes may be wrong"), UsageProblem);
}

TEST_CASE("a second thread is refused, not let in") {
    const auto made = engine();
    StreamPool pool{made, options()};
    const Streams streams{pool.open()};
    bool refused = false;
    const Values x = chunks(1, 0);
    Values y(4);
    Values gain(1);
    pool.push(streams, {array(x, {1, 4}), fake::state(), fake::state(), array(one, {1})},
              [&](std::size_t output, const Shape&) -> void* {
                  std::thread other{[&] {
                      try {
                          pool.open();
                      } catch (const UsageProblem&) {
                          refused = true;
                      }
                  }};
                  other.join();
                  return output == 0 ? y.data() : gain.data();
              });
    CHECK(refused);
    CHECK(pool.open_streams() == 1);
}
