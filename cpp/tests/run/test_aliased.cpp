// Outputs that TensorRT writes in an input's memory.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/bench.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using fake::call_of;
using fake::host;
using fake::run;
using fake::state;
using fake::Values;
using trtw::Output;
using trtw::Runner;
using trtw::RunnerOptions;
using trtw::UsageProblem;

namespace {

// cache += x, in place; sum = cache + weight.
std::shared_ptr<fake::Engine> cached(std::int64_t elements = 2) {
    const auto compute = [](const std::vector<Values>& in, float weight) {
        Values next = in[1];
        Values sum = in[1];
        for (std::size_t i = 0; i < next.size(); ++i) {
            next[i] += in[0][i];
            sum[i] = next[i] + weight;
        }
        return std::vector<Values>{next, sum};
    };
    return std::make_shared<fake::Engine>(std::vector{fake::input("x", elements), fake::input("cache", elements),
                                                      fake::output("cache_next", elements, "cache"),
                                                      fake::output("sum", elements)},
                                          compute);
}

RunnerOptions with_state() {
    RunnerOptions options;
    options.state = {{"cache_next", "cache"}};
    return options;
}

} // namespace

TEST_CASE("an aliased output has its input's address") {
    for (const bool graph : {true, false}) {
        for (const bool fused : {true, false}) {
            RunnerOptions options;
            options.cuda_graph = graph;
            options.graph_includes_transfers = fused;
            Runner runner{cached(), options};
            const Values x{1, 2};
            const Values cache{10, 20};
            for (int i = 0; i < 4; ++i) {
                CHECK(run(runner, {host(x), host(cache)}) == Values{11, 22});
                CHECK(run(runner, {host(x), host(cache)}, 1) == Values{12, 23});
            }
        }
    }
}

TEST_CASE("a device array that is aliased is updated in place") {
    Runner runner{cached(), {}};
    const Values x{1, 2};
    const trtw::DeviceMemory block{2 * sizeof(float)};
    auto* cache = static_cast<float*>(block.data());
    std::ranges::copy(Values{10, 20}, cache);
    trtw::Input given = host(x);
    given.source = trtw::Source::device;
    given.data = cache;
    const Output output = runner.run(call_of({host(x), given})).outputs()[0];
    CHECK(output.device == nullptr);
    CHECK(fake::values(output) == Values{11, 22});
    CHECK(cache[1] == 22);
}

TEST_CASE("aliased state takes one buffer and one graph") {
    Runner runner{cached(), with_state()};
    const Values x{1, 2};
    for (float i = 1; i < 7; ++i) {
        CHECK(run(runner, {host(x), state()}, 1) == Values{i + 1, 2 * i + 1});
    }
    CHECK(runner.status().graphs == 1);
    CHECK(runner.status().memory.device_state == 2 * sizeof(float));
    const Values wrong{1, 2, 3};
    CHECK_THROWS_AS(runner.run(call_of({host(wrong), state()})), UsageProblem);
    CHECK(run(runner, {host(x), state()}, 1) == Values{8, 15});
}

TEST_CASE("aliased outputs that are held keep their values") {
    const Values x{1, 2};
    Runner stateful{cached(), with_state()};
    const Output first = stateful.run(call_of({host(x), state()})).outputs()[0];
    const Output second = stateful.run(call_of({host(x), state()})).outputs()[0];
    CHECK(run(stateful, {host(x), state()}, 1) == Values{4, 7});
    CHECK(fake::values_on_device(first) == Values{1, 2});
    CHECK(fake::values_on_device(second) == Values{2, 4});
    Runner plain{cached(), {}};
    const Values tens{10, 10};
    const Output kept = plain.run(call_of({host(x), host(tens)})).outputs()[0];
    CHECK(run(plain, {host(x), host(x)}) == Values{2, 4});
    CHECK(fake::values_on_device(kept) == Values{11, 12});
}

TEST_CASE("a pair that contradicts the aliasing is refused") {
    RunnerOptions options;
    options.state = {{"cache_next", "x"}};
    CHECK_THROWS_WITH_AS(Runner(cached(), options), doctest::Contains("can feed that input only"), UsageProblem);
}

TEST_CASE("the bench binds them alike, and checks its inputs") {
    const Values x{1, 2};
    trtw::BenchOptions options;
    options.duration_s = 0;
    options.warmup_ms = 0;
    options.iterations = 2;
    const auto engine = cached();
    CHECK(trtw::bench(engine, {host(x), host(x)}, options).samples.size() >= 2);
    CHECK_THROWS_AS(trtw::bench(engine, {host(x)}, options), UsageProblem);
}
