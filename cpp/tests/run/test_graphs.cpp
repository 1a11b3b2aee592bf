// Which calls are replayed from graphs, and what the others cost.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <string>

using fake::call_of;
using fake::host;
using fake::state;
using fake::Values;
using trtw::Call;
using trtw::Input;
using trtw::Runner;
using trtw::RunnerOptions;
using trtw::Shape;
using trtw::Source;

namespace {

struct Counted {
    explicit Counted(std::shared_ptr<fake::Engine> counted) : engine{std::move(counted)} {
        engine->infer = [this](const std::vector<Shape>& in) {
            ++inferences;
            return std::vector<Shape>(engine->outputs().size(), in[0]);
        };
    }
    std::shared_ptr<fake::Engine> engine;
    int inferences = 0;
};

// x of 1 to 8 elements and z of 1 or 2, so that there are 16 shapes; the state keeps its own.
std::shared_ptr<fake::Engine> with_many_shapes() {
    using fake::input;
    using fake::output;
    auto engine = std::make_shared<fake::Engine>(
        std::vector{input("x", -1), input("z", -1), input("h", 4), output("y", -1), output("h_next", 4)},
        [](const std::vector<Values>& in, float /*weight*/) { return std::vector<Values>{in[0], in[2]}; });
    return engine;
}

} // namespace

TEST_CASE("as many shapes are remembered with state as without") {
    for (const bool stateful : {false, true}) {
        Counted counted{with_many_shapes()};
        counted.engine->infer = [&](const std::vector<Shape>& in) {
            ++counted.inferences;
            return std::vector<Shape>{in[0], in[2]};
        };
        RunnerOptions options;
        if (stateful) {
            options.state = {{"h_next", "h"}};
        }
        Runner runner{counted.engine, options};
        const Values h(4, 0);
        const auto rounds = [&](int count) {
            for (int i = 0; i < count * 15; ++i) { // an odd number: each shape meets both buffers of the state
                const Values x(static_cast<std::size_t>(1 + i % 15 % 8), 1);
                const Values z(static_cast<std::size_t>(1 + i % 15 / 8), 1);
                runner.run(call_of({host(x), host(z), stateful ? state() : host(h)}));
            }
        };
        rounds(4);
        const auto graphs = fake::launched_graphs();
        counted.inferences = 0;
        rounds(4);
        CAPTURE(stateful);
        CHECK(fake::launched_graphs() - graphs == 60);
        CHECK(counted.inferences == 0);
    }
}

TEST_CASE("a call of a new shape has its shapes worked out once, one at another address not at all") {
    Counted counted{fake::twice(-1)};
    Runner runner{counted.engine, {}};
    for (int length = 1; length <= 8; ++length) {
        const Values x(static_cast<std::size_t>(length), 1);
        CHECK(fake::run(runner, {host(x)}) == Values(x.size(), 3));
        CHECK(counted.inferences == length);
    }
    const Values one{1};
    const Values two{2};
    for (const Values* x : {&one, &two}) {
        Input input = host(*x);
        input.source = Source::device;
        CHECK(fake::run(runner, {input}) == Values{2 * (*x)[0] + 1});
    }
    CHECK(counted.inferences <= 9);
}

TEST_CASE("one shape more than there is room for graphs costs the graphs of one shape") {
    Counted counted{fake::twice(-1)};
    RunnerOptions options;
    options.graph_cache = 4;
    Runner runner{counted.engine, options};
    const auto rounds = [&](int count, std::size_t shapes) {
        for (int i = 0; i < count; ++i) {
            for (std::size_t length = 1; length <= shapes; ++length) {
                CHECK(fake::run(runner, {host(Values(length, 1))}) == Values(length, 3));
            }
        }
    };
    rounds(12, 5);
    auto graphs = fake::launched_graphs();
    rounds(10, 5);
    CHECK(fake::launched_graphs() - graphs == 40);
    CHECK(runner.status().graphs == 4);
    // Shapes that come no longer give way.
    const auto other = [&](int count) {
        for (int i = 0; i < count; ++i) {
            fake::run(runner, {host(Values(7, 1))});
            fake::run(runner, {host(Values(8, 1))});
        }
    };
    other(12);
    graphs = fake::launched_graphs();
    other(10);
    CHECK(fake::launched_graphs() - graphs == 20);
    CHECK(runner.status().graphs == 4);
}

TEST_CASE("small device arrays at many addresses are copied, those at a few are read where they lie") {
    for (const std::size_t count : {1U, 4U, 5U, 24U, 40U}) {
        Counted counted{fake::twice(4)};
        Runner runner{counted.engine, {}};
        std::deque<trtw::DeviceMemory> blocks;
        for (std::size_t i = 0; i < count; ++i) {
            blocks.emplace_back(4 * sizeof(float));
        }
        const auto rounds = [&](std::size_t calls) {
            unsigned seed = 1;
            for (std::size_t i = 0; i < calls; ++i) {
                seed = seed * 1103515245U + 12345U;
                trtw::DeviceMemory& block = blocks[(seed >> 16U) % count];
                std::fill_n(static_cast<float*>(block.data()), 4, static_cast<float>(i));
                Input input;
                input.source = Source::device;
                input.data = block.data();
                input.shape = {4};
                CHECK(fake::run(runner, {input}) == Values(4, 2 * static_cast<float>(i) + 1));
            }
        };
        rounds(100);
        const auto graphs = fake::launched_graphs();
        counted.inferences = 0;
        rounds(400);
        CAPTURE(count);
        CHECK(fake::launched_graphs() - graphs >= 400 - 8); // some address may come to be read in place
        CHECK(counted.inferences <= 4);
        CHECK((runner.status().memory.device_inputs > 0) == (count > 4));
    }
}

TEST_CASE("an address that takes the place of others is read where it lies") {
    Runner runner{fake::twice(4), {}};
    std::deque<trtw::DeviceMemory> blocks;
    const auto run = [&](trtw::DeviceMemory& block) {
        std::fill_n(static_cast<float*>(block.data()), 4, 2.0F);
        Input input;
        input.source = Source::device;
        input.data = block.data();
        input.shape = {4};
        CHECK(fake::run(runner, {input}) == Values(4, 5));
    };
    for (int i = 0; i < 5; ++i) {
        run(blocks.emplace_back(16));
    }
    trtw::DeviceMemory& last = blocks.emplace_back(16);
    const auto before = fake::copies_from(last.data(), last.bytes());
    const auto copies = [&] { return fake::copies_from(last.data(), last.bytes()) - before; };
    run(last);
    CHECK(copies() == 1);
    for (int i = 0; i < 12; ++i) {
        run(last);
    }
    CHECK(copies() < 12);
    const auto then = copies();
    run(last);
    CHECK(copies() == then);
}

TEST_CASE("a device array that lies where TensorRT takes none is copied") {
    Runner runner{fake::twice(), {}};
    trtw::DeviceMemory block{64};
    auto* values = static_cast<float*>(block.data());
    for (float x = 0; x < 4; ++x) {
        values[1] = x;
        Input input;
        input.source = Source::device;
        input.data = values + 1;
        input.shape = {1};
        CHECK(fake::run(runner, {input}) == Values{2 * x + 1});
    }
}

TEST_CASE("times are taken of the calls whose caller asks for them") {
    for (const bool fused : {true, false}) {
        RunnerOptions options;
        options.graph_includes_transfers = fused;
        Runner runner{fake::twice(), options};
        const Values x{3};
        Call call = call_of({host(x)});
        for (int i = 0; i < 4; ++i) {
            call.timing.reset();
            CHECK(runner.run(call).timing().compute_ms == 0);
            call.timing = true;
            CHECK(runner.run(call).timing().compute_ms > 0);
        }
        CHECK(runner.status().graphs == 2);
    }
}

TEST_CASE("an engine that streams weights is not captured") {
    for (const bool fused : {true, false}) {
        auto engine = fake::twice(4);
        engine->streams_weights_ = true;
        RunnerOptions options;
        options.graph_includes_transfers = fused;
        Runner runner{engine, options};
        const Values x(4, 3);
        const auto graphs = fake::launched_graphs();
        for (int i = 0; i < 4; ++i) {
            CHECK(fake::run(runner, {host(x)}) == Values(4, 7));
        }
        CHECK(fake::launched_graphs() == graphs);
        CHECK(runner.graph_status() == "off: the engine streams weights, which a graph cannot hold");
    }
}
