// The state of streams: where it starts, where it stays, and how it is saved.
#include "fake_cuda.hpp"
#include "stream_pool_engine.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>

using namespace streams;

TEST_CASE("NaN stays in its stream, and leaves with it") {
    StreamPool pool{engine(), options()};
    const Streams streams{pool.open(), pool.open(), pool.open()};
    Values x = chunks(3, 0);
    x[5] = std::numeric_limits<float>::quiet_NaN();
    for (int i = 0; i < 3; ++i) {
        push(pool, streams, x);
    }
    CHECK(std::isnan(floats(pool.save(streams[1])[0])[0]));
    check_state(pool, streams[0], {6, 6, 6});
    check_state(pool, streams[2], {38, 38, 38});
    pool.close(streams[1]);
    const std::int64_t next = pool.open(); // in the same row
    check_state(pool, next, {});
}

TEST_CASE("state starts from what it is told, and unused rows of a batch leave that alone") {
    StreamPoolOptions with_initial = options();
    const Values h{1, 2, 3, 4, 5, 6};
    const Values k{7};
    with_initial.state[0].initial = array(h, {2, 1, 3});
    with_initial.state[1].initial = array(k, {1});
    StreamPool pool{engine(), with_initial};
    const Streams streams{pool.open(), pool.open(), pool.open()};
    CHECK(push(pool, streams, chunks(3, 0)).y[0] == 1);
    for (int i = 0; i < 3; ++i) {
        const std::vector<StreamValue> fresh = pool.save(pool.open());
        CHECK(floats(fresh[0]) == h);
        CHECK(floats(fresh[1]) == k);
        push(pool, streams, chunks(3, 0));
    }
}

TEST_CASE("state of open dimensions needs an initial value, and keeps its shape") {
    const auto made = std::make_shared<fake::Engine>(
        std::vector{tensor("x", {-1, 4}, {{{1, 4}, {1, 4}, {4, 4}}}), tensor("h", {-1, -1}, {{{1, 1}, {1, 8}, {4, 8}}}),
                    tensor("y", {-1, 4}), tensor("h_next", {-1, -1})},
        [](const std::vector<Values>& in, float) {
            return std::vector<Values>{in[0], Values(in[1].size() + in[0].size() / 4, 1)};
        });
    made->infer = [](const std::vector<Shape>& in) -> std::vector<Shape> { return {in[0], {in[1][0], in[1][1] + 1}}; };
    StreamPoolOptions open;
    open.state = {{"h", "h_next", 0, 0, std::nullopt}};
    open.batch_axes = {{"x", 0}, {"y", 0}};
    CHECK_THROWS_WITH_AS(StreamPool(made, open), doctest::Contains("initial value"), UsageProblem);
    const Values h(5, 0);
    open.state[0].initial = array(h, {1, 5});
    StreamPool pool{made, open};
    const Streams streams{pool.open()};
    const Values x(4, 0);
    CHECK_THROWS_WITH_AS(pool.push(streams, {array(x, {1, 4}), fake::state()},
                                   [](std::size_t, const Shape&) -> void* { return nullptr; }),
                         doctest::Contains("[1, 6] in a batch of 1"), UsageProblem);
}

TEST_CASE("state is saved and restored, bit for bit") {
    StreamPool pool{engine(), options()};
    const Streams streams{pool.open(), pool.open()};
    push(pool, streams, chunks(2, 1));
    const std::vector<StreamValue> saved = pool.save(streams[0]);
    push(pool, streams, chunks(2, 1));
    const Values h = floats(saved[0]);
    const Values k = floats(saved[1]);
    pool.restore(streams[1], {{2, array(k, {1})}, {1, array(h, {2, 1, 3})}});
    check_state(pool, streams[0], {10, 10});
    check_state(pool, streams[1], {10});
    CHECK_THROWS_WITH_AS(pool.restore(streams[0], {{1, array(h, {2, 1, 3})}}), doctest::Contains("'k' is missing"),
                         UsageProblem);
    CHECK_THROWS_AS(pool.restore(streams[0], {{1, array(h, {2, 1, 3})}, {2, array(k, {1})}, {0, array(k, {1})}}),
                    UsageProblem);
    CHECK_THROWS_WITH_AS(pool.restore(streams[0], {{1, array(h, {1, 2, 3})}, {2, array(k, {1})}}),
                         doctest::Contains("of the shape [2, 1, 3]; got [1, 2, 3]"), UsageProblem);
    CHECK_THROWS_AS(pool.restore(99, {}), UsageProblem);
    check_state(pool, streams[0], {10, 10});
}

TEST_CASE("10,000 streams come and go, and no memory with them") {
    StreamPool pool{engine(), options()};
    std::mt19937 random{1};
    Streams streams;
    for (int i = 0; i < 12; ++i) {
        streams.push_back(pool.open());
    }
    push(pool, streams, chunks(12, 0));
    const std::size_t allocations = fake::allocations();
    for (int i = 0; i < 10'000; ++i) {
        std::int64_t& stream = streams[random() % streams.size()];
        if (random() % 4 == 0) {
            push(pool, {stream}, chunks(1, 0));
        }
        pool.close(stream);
        stream = pool.open();
    }
    CHECK(fake::allocations() == allocations);
    CHECK(pool.memory().arena == 13 * pool.memory().per_stream);
    for (const std::int64_t stream : streams) {
        pool.close(stream);
    }
    CHECK(pool.open_streams() == 0);
    check_state(pool, pool.open(), {});
}
