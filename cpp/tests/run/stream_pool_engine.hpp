// Streams over an engine that adds up: y[b, t] = x[b, t] + h[0, b, 0], h_next = h + the sum of x; k_next = k + 1.
#pragma once

#include "fake_engine.hpp"
#include "trtw/error.hpp"
#include "trtw/stream_pool.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace streams {

using fake::Shape;
using fake::Values;
using trtw::Input;
using trtw::ProfileRange;
using trtw::StreamPool;
using trtw::StreamPoolOptions;
using trtw::StreamValue;
using trtw::TensorInfo;
using trtw::UsageProblem;

using Streams = std::vector<std::int64_t>;

inline constexpr std::size_t width = 3; // of h: [2, B, 3]

inline TensorInfo tensor(const std::string& name, Shape shape, std::vector<ProfileRange> profiles = {}) {
    TensorInfo tensor = fake::output(name, 0);
    tensor.shape = std::move(shape);
    tensor.is_input = !profiles.empty();
    tensor.profiles = std::move(profiles);
    return tensor;
}

inline std::vector<Values> add_up(const std::vector<Values>& in, float weight) {
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
inline std::shared_ptr<fake::Engine> engine() {
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

inline StreamPoolOptions options(bool graphs = true) {
    StreamPoolOptions options;
    options.state = {{"h", "h_next", 1, 1, std::nullopt}, {"k", "k_next", 0, 0, std::nullopt}};
    options.batch_axes = {{"x", 0}, {"y", 0}};
    options.capacity = 12;
    options.cuda_graphs = graphs;
    return options;
}

inline Input array(const Values& values, Shape shape) {
    Input input = fake::host(values);
    input.shape = std::move(shape);
    return input;
}

inline const Values one{1};

struct Outputs {
    Values y;
    Values gain;
};

inline Outputs push(StreamPool& pool, const Streams& streams, const Values& x, std::int64_t steps = 4) {
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

inline Values floats(const StreamValue& value) {
    Values values(value.bytes.size() / sizeof(float));
    std::memcpy(values.data(), value.bytes.data(), value.bytes.size());
    return values;
}

// What a stream's state is after chunks with these sums.
inline Values expected_h(const Values& sums) {
    Values h(2 * width, 0);
    for (const float sum : sums) {
        for (std::size_t i = 0; i < h.size(); ++i) {
            h[i] += sum + static_cast<float>(10 * (i / width) + i % width);
        }
    }
    return h;
}

inline Values chunks(std::size_t streams, float first, std::size_t steps = 4) {
    Values values(streams * steps);
    std::iota(values.begin(), values.end(), first);
    return values;
}

inline void check_state(StreamPool& pool, std::int64_t stream, const Values& sums) {
    const std::vector<StreamValue> state = pool.save(stream);
    CHECK(state[0].shape == Shape{2, 1, 3});
    CHECK(floats(state[0]) == expected_h(sums));
    CHECK(state[1].shape == Shape{1});
    CHECK(floats(state[1]) == Values{static_cast<float>(sums.size())});
}

} // namespace streams
