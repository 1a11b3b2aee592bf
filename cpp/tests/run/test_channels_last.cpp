// Inputs whose format has the channels last: calls give row-major arrays, the engine reads packed ones.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "run/channels_last.hpp"
#include "trtw/bench.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using fake::call_of;
using fake::Values;
using trtw::Input;
using trtw::Runner;
using trtw::RunnerOptions;
using trtw::Shape;
using trtw::Source;
using trtw::TensorInfo;
using trtw::UsageProblem;

namespace {

constexpr std::int64_t height = 3;
constexpr std::int64_t width = 5;

TensorInfo images(std::int64_t channels, std::int64_t group) {
    TensorInfo tensor = fake::input("x", -1);
    tensor.shape = {-1, channels, height, width};
    tensor.profiles = {
        trtw::ProfileRange{{1, channels, height, width}, {4, channels, height, width}, {4, channels, height, width}}};
    tensor.is_linear = group == 0;
    tensor.channel_group = group;
    tensor.format = group == 8 ? "HWC8" : "HWC";
    return tensor;
}

std::int64_t padded(std::int64_t channels, std::int64_t group) {
    return (channels + group - 1) / group * group;
}

// Its output is what it reads.
std::shared_ptr<fake::Engine> shown(const TensorInfo& x) {
    const std::int64_t channels = padded(x.shape[1], x.channel_group);
    TensorInfo y = fake::output("y", -1);
    y.shape = {-1, height, width, channels};
    auto engine = std::make_shared<fake::Engine>(std::vector{x, y},
                                                 [](const std::vector<Values>& in, float /*weight*/) { return in; });
    engine->infer = [channels](const std::vector<Shape>& in) {
        return std::vector<Shape>{{in[0][0], in[0][2], in[0][3], channels}};
    };
    return engine;
}

template <class Word>
std::vector<Word> packed(const std::vector<Word>& from, const Shape& shape, std::int64_t group) {
    std::vector<Word> result;
    const std::int64_t pixels = shape[2] * shape[3];
    for (std::int64_t n = 0; n < shape[0]; ++n) {
        for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
            for (std::int64_t c = 0; c < padded(shape[1], group); ++c) {
                const std::int64_t place = (n * shape[1] + c) * pixels + pixel;
                result.push_back(c < shape[1] ? from[static_cast<std::size_t>(place)] : Word{0});
            }
        }
    }
    return result;
}

// Every bit pattern may come: signs of zeros, infinities, NaN, numbers below the normal ones.
Values anything(const Shape& shape, unsigned seed) {
    std::mt19937 random{seed};
    Values values(static_cast<std::size_t>(trtw::volume(shape)));
    for (float& value : values) {
        value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    }
    values[0] = -0.0F;
    values[1] = -std::numeric_limits<float>::infinity();
    values[2] = std::numeric_limits<float>::denorm_min();
    return values;
}

bool same_bits(const Values& one, const Values& other) {
    return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}

Input input(const void* data, const Shape& shape, Source source) {
    Input made;
    made.source = source;
    made.data = data;
    made.shape = shape;
    return made;
}

} // namespace

TEST_CASE_TEMPLATE("channels of every number and type go last, and zeros after them", Word, std::uint8_t, std::uint16_t,
                   std::uint32_t) {
    std::mt19937 random{3};
    for (const std::int64_t group : {1, 8}) {
        for (const std::int64_t channels : {1, 3, 4, 8, 9, 17}) {
            TensorInfo x = images(channels, group);
            x.bits = sizeof(Word) * 8;
            const Shape shape{2, channels, height, width};
            std::vector<Word> from(static_cast<std::size_t>(trtw::volume(shape)));
            std::ranges::generate(from, [&] { return static_cast<Word>(random()); });
            const trtw::DeviceMemory to{trtw::bound_bytes(x, shape)};
            const std::vector<Word> expected = packed(from, shape, group);
            REQUIRE(trtw::bound_bytes(x, shape) == expected.size() * sizeof(Word));
            trtw::pack_on_host(x, shape, from.data(), to.data());
            CHECK(std::memcmp(to.data(), expected.data(), trtw::bound_bytes(x, shape)) == 0);
        }
    }
}

TEST_CASE("arrays on the host, views and arrays on the device are packed in every call, with and without a graph") {
    for (const auto& [channels, group] : {std::pair{1, 8}, {3, 8}, {4, 8}, {8, 8}, {9, 8}, {3, 1}}) {
        for (const bool cuda_graph : {true, false}) {
            RunnerOptions options;
            options.cuda_graph = cuda_graph;
            options.graph_includes_transfers = channels != 4;
            Runner runner{shown(images(channels, group)), options};
            const auto launched = fake::launched_graphs();
            for (unsigned turn = 0; turn < 12; ++turn) {
                const Shape shape{1 + turn / 6, channels, height, width};
                const Values values = anything(shape, turn);
                const Values expected = packed(values, shape, group);
                CHECK(same_bits(fake::run(runner, {input(values.data(), shape, Source::host)}), expected));

                const std::vector<Values> pixels{packed(values, shape, 1)};
                Input view = input(pixels[0].data(), shape, Source::host);
                const std::int64_t element = sizeof(float);
                view.strides = {channels * height * width * element, element, width * channels * element,
                                channels * element};
                CHECK(same_bits(fake::run(runner, {view}), expected));

                for (const std::size_t first : {0U, 1U}) { // as TensorRT takes memory, and as it does not
                    const trtw::DeviceMemory memory{(values.size() + first) * sizeof(float)};
                    float* there = static_cast<float*>(memory.data()) + first;
                    std::ranges::copy(values, there);
                    CHECK(same_bits(fake::run(runner, {input(there, shape, Source::device)}), expected));
                }
            }
            CHECK((fake::launched_graphs() > launched) == cuda_graph);
        }
    }
}

TEST_CASE("a graph of the caller's packs what the array is by then") {
    const Shape shape{2, 3, height, width};
    Runner runner{shown(images(3, 8)), {}};
    const trtw::DeviceMemory x{static_cast<std::size_t>(trtw::volume(shape)) * sizeof(float) + 1};
    const trtw::Stream stream;
    trtw::Call call = call_of({input(x.data(), shape, Source::device)});
    call.to_host = {false};
    REQUIRE(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    const trtw::Enqueued found = runner.enqueue(call, stream.get());
    call.inputs[0].data = static_cast<const std::byte*>(x.data()) + 1;
    CHECK_THROWS_WITH_AS(runner.enqueue(call, stream.get()), doctest::Contains("no multiple of its elements'"),
                         UsageProblem);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    REQUIRE(cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    for (unsigned turn = 0; turn < 3; ++turn) {
        const Values values = anything(shape, turn);
        std::ranges::copy(values, static_cast<float*>(x.data()));
        REQUIRE(cudaGraphLaunch(executable, stream.get()) == cudaSuccess);
        stream.synchronize();
        CHECK(same_bits(fake::values_on_device(found.outputs[0]), packed(values, shape, 8)));
    }
    static_cast<void>(cudaGraphExecDestroy(executable));
    static_cast<void>(cudaGraphDestroy(graph));
}

TEST_CASE("a bench measures with packed arrays") {
    const Shape shape{2, 3, height, width};
    const Values values = anything(shape, 1);
    auto engine = shown(images(3, 8));
    std::size_t wrong = 0;
    engine->compute = [&, expected = packed(values, shape, 8)](const std::vector<Values>& in, float /*weight*/) {
        wrong += same_bits(in[0], expected) ? 0 : 1;
        return in;
    };
    trtw::BenchOptions options;
    options.iterations = 3;
    options.duration_s = 0;
    options.warmup_ms = 0;
    CHECK(trtw::bench(engine, {input(values.data(), shape, Source::host)}, options).samples.size() >= 3);
    CHECK(wrong == 0);
}

TEST_CASE("other formats, those of outputs and those of state are refused") {
    const auto refused = [](const TensorInfo& x, bool of_output, const RunnerOptions& options) {
        const auto engine = shown(images(8, 8));
        TensorInfo y = images(8, of_output ? 8 : 0);
        y.name = "y";
        y.is_input = false;
        auto made = std::make_shared<fake::Engine>(std::vector{x, y}, engine->compute);
        CHECK_THROWS_WITH_AS((Runner{made, options}), doctest::Contains("I/O formats"), UsageProblem);
    };
    TensorInfo chw32 = images(8, 0);
    chw32.is_linear = false;
    refused(chw32, false, {});
    refused(images(8, 8), true, {});
    RunnerOptions with_state;
    with_state.state = {{"y", "x"}};
    refused(images(8, 8), false, with_state);
}
