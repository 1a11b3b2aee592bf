// Which calls are replayed from graphs, and what the others cost.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"

#include <doctest/doctest.h>

#include <string>

using fake::call_of;
using fake::host;
using fake::state;
using fake::Values;
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
