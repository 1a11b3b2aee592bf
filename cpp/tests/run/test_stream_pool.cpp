// Streams over an engine that adds up: y[b, t] = x[b, t] + h[0, b, 0], h_next = h + the sum of x; k_next = k + 1.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "run/row_copy.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/error.hpp"
#include "trtw/stream_pool.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <thread>

using fake::Shape;
using fake::Values;
using trtw::Input;
using trtw::ProfileRange;
using trtw::Source;
using trtw::StreamPool;
using trtw::StreamPoolOptions;
using trtw::StreamState;
using trtw::StreamValue;
using trtw::TensorInfo;
using trtw::UsageProblem;

namespace {

using Streams = std::vector<std::int64_t>;

constexpr std::size_t width = 3; // of h: [2, B, 3]

TensorInfo tensor(const std::string& name, Shape shape, std::vector<ProfileRange> profiles = {}) {
    TensorInfo tensor = fake::output(name, 0);
    tensor.shape = std::move(shape);
    tensor.is_input = !profiles.empty();
    tensor.profiles = std::move(profiles);
    return tensor;
}

std::vector<Values> add_up(const std::vector<Values>& in, float weight) {
    const std::size_t rows = in[2].size(); // k [B]
    const std::size_t steps = in[0].size() / rows;
    Values y = in[0];
    Values h = in[1];
    Values k = in[2];
    Values gain{in[3].front() + weight};
    for (std::size_t b = 0; b < rows; ++b) {
        float sum = 0;
        for (std::size_t t = 0; t < steps; ++t) {
            sum += in[0][b * steps + t];
            y[b * steps + t] += in[1][b * width] * in[3].front();
        }
        for (std::size_t l = 0; l < 2; ++l) {
            for (std::size_t w = 0; w < width; ++w) {
                h[(l * rows + b) * width + w] += sum + static_cast<float>(10 * l + w);
            }
        }
        k[b] += 1;
    }
    return {y, h, k, gain};
}

// Profile 0: chunks of 4 in batches of up to 4; profile 1: chunks of 1 or 2, one or two at a time.
std::shared_ptr<fake::Engine> engine() {
    const auto batch = [](std::int64_t most) { return ProfileRange{{2, 1, 3}, {2, most, 3}, {2, most, 3}}; };
    auto made = std::make_shared<fake::Engine>(
        std::vector{tensor("x", {-1, -1}, {{{1, 4}, {4, 4}, {4, 4}}, {{1, 1}, {2, 2}, {2, 2}}}),
                    tensor("h", {2, -1, 3}, {batch(4), batch(2)}),
                    tensor("k", {-1}, {{{1}, {4}, {4}}, {{1}, {2}, {2}}}),
                    tensor("gain", {1}, {{{1}, {1}, {1}}, {{1}, {1}, {1}}}), tensor("y", {-1, -1}),
                    tensor("h_next", {2, -1, 3}), tensor("k_next", {-1}), tensor("gain_seen", {1})},
        add_up);
    made->infer = [](const std::vector<Shape>& in) -> std::vector<Shape> {
        if (in[0] == Shape{1, 1}) {
            throw UsageProblem("TensorRT refuses this batch");
        }
        return {in[0], in[1], in[2], {1}};
    };
    return made;
}

StreamPoolOptions options(bool graphs = true) {
    StreamPoolOptions options;
    options.state = {{"h", "h_next", 1, 1, std::nullopt}, {"k", "k_next", 0, 0, std::nullopt}};
    options.batch_axes = {{"x", 0}, {"y", 0}};
    options.capacity = 12;
    options.cuda_graph = graphs;
    return options;
}

Input array(const Values& values, Shape shape) {
    Input input = fake::host(values);
    input.shape = std::move(shape);
    return input;
}

const Values one{1};

struct Outputs {
    Values y;
    Values gain;
};

Outputs push(StreamPool& pool, const Streams& streams, const Values& x, std::int64_t steps = 4) {
    const Shape shape{static_cast<std::int64_t>(x.size()) / steps, steps};
    std::map<std::size_t, Values> made;
    pool.push(
        streams, {array(x, shape), fake::state(), fake::state(), array(one, {1})},
        [&](std::size_t output, const Shape& wanted) -> void* {
            return made.try_emplace(output, static_cast<std::size_t>(trtw::volume(wanted)), -1.0F).first->second.data();
        });
    CHECK(made.size() == 2); // no state
    return {made.at(0), made.at(3)};
}

Values floats(const StreamValue& value) {
    Values values(value.bytes.size() / sizeof(float));
    std::memcpy(values.data(), value.bytes.data(), value.bytes.size());
    return values;
}

// What a stream's state is after chunks with these sums.
Values expected_h(const Values& sums) {
    Values h(2 * width, 0);
    for (const float sum : sums) {
        for (std::size_t i = 0; i < h.size(); ++i) {
            h[i] += sum + static_cast<float>(10 * (i / width) + i % width);
        }
    }
    return h;
}

Values chunks(std::size_t streams, float first, std::size_t steps = 4) {
    Values values(streams * steps);
    std::iota(values.begin(), values.end(), first);
    return values;
}

void check_state(StreamPool& pool, std::int64_t stream, const Values& sums) {
    const std::vector<StreamValue> state = pool.save(stream);
    CHECK(state[0].shape == Shape{2, 1, 3});
    CHECK(floats(state[0]) == expected_h(sums));
    CHECK(state[1].shape == Shape{1});
    CHECK(floats(state[1]) == Values{static_cast<float>(sums.size())});
}

} // namespace

TEST_CASE("a word of every width goes to its place and back, whichever axis is the batch's") {
    std::mt19937 random{7};
    for (const std::size_t inner : {1U, 2U, 3U, 4U, 8U, 12U, 16U, 48U}) {
        for (const std::size_t outer : {1U, 2U, 5U}) {
            const std::size_t row_bytes = inner * outer;
            const std::size_t stride = (row_bytes + 15) / 16 * 16;
            const std::vector<std::int32_t> rows{3, 0, 4, 4}; // 4 is the spare row
            std::vector<trtw::Word16> memory(stride / 16 * 5 + (row_bytes * rows.size() + 15) / 16);
            auto* arena = reinterpret_cast<std::byte*>(memory.data());
            std::byte* batch = arena + stride * 5;
            for (std::size_t i = 0; i < stride * 5; ++i) {
                arena[i] = static_cast<std::byte>(random());
            }
            const std::vector<std::byte> before(arena, arena + stride * 5);
            const auto copy = trtw::row_copy(arena, stride, batch, row_bytes, inner);
            const auto launch = [&](trtw::RowDirection direction) {
                const trtw::Stream stream;
                trtw::launch_row_copies({&copy, 1}, direction, rows.data(), 4, 4, stream.get());
            };
            launch(trtw::RowDirection::gather);
            bool right = true;
            for (std::size_t place = 0; place < rows.size(); ++place) {
                for (std::size_t o = 0; o < outer; ++o) {
                    for (std::size_t i = 0; i < inner; ++i) {
                        right = right && batch[(o * rows.size() + place) * inner + i] ==
                                             before[static_cast<std::size_t>(rows[place]) * stride + o * inner + i];
                    }
                }
            }
            CHECK(right);
            for (const std::size_t row : {0U, 3U}) {
                std::memset(arena + row * stride, 0, row_bytes);
            }
            std::memset(batch + 2 * inner, 0x77, inner); // what comes of the spare row is dropped
            launch(trtw::RowDirection::scatter);
            CHECK(std::memcmp(arena, before.data(), before.size()) == 0);
        }
    }
}

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
    strange.source = Source::device;
    const auto none = [](std::size_t, const Shape&) -> void* { return nullptr; };
    const Streams first{streams[0]};
    const Values x = chunks(1, 0);
    CHECK_THROWS_AS(pool.push(first, {strange, fake::state(), fake::state(), array(one, {1})}, none), UsageProblem);
    const Values h(6, 0);
    CHECK_THROWS_WITH_AS(
        pool.push(first, {array(x, {1, 4}), array(h, {2, 1, 3}), fake::state(), array(one, {1})}, none),
        doctest::Contains("'h' is state"), UsageProblem);
    CHECK_THROWS_WITH_AS(pool.push(first, {fake::state(), fake::state(), fake::state(), array(one, {1})}, none),
                         doctest::Contains("'x' is no state"), UsageProblem);
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
