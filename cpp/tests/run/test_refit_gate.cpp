// Other weights while runners live.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

using namespace std::chrono_literals;
using fake::call_of;
using fake::host;
using fake::run;
using fake::Values;
using trtw::CallGate;
using trtw::Runner;
using trtw::UsageProblem;

TEST_CASE("a refit is refused while calls are in flight") {
    const auto engine = fake::twice();
    Runner runner{engine, {}};
    const Values x{3};
    std::optional<Runner::Ticket> ticket{runner.submit(call_of({host(x)}))};
    CHECK_THROWS_WITH_AS(CallGate::Closed{engine->gate()}, doctest::Contains("1 call in flight"), UsageProblem);
    ticket.reset();
    {
        const CallGate::Closed closed{engine->gate()};
    }
    CHECK(run(runner, {host(x)}) == Values{7});
}

TEST_CASE("refused and failed calls are in flight no longer") {
    const auto engine = fake::twice();
    Runner runner{engine, {}};
    const Values x{3};
    const Values long_one(9, 1);
    CHECK_THROWS_AS(runner.run(call_of({host(long_one)})), UsageProblem);
    engine->failure = "broken";
    CHECK_THROWS_AS(runner.run(call_of({host(x)})), trtw::DeviceFailure);
    engine->failure.clear();
    const CallGate::Closed closed{engine->gate()};
    CHECK_THROWS_WITH_AS(CallGate::Closed{engine->gate()}, doctest::Contains("another thread"), UsageProblem);
}

TEST_CASE("a call that is captured into a caller's graph waits for the end of a refit") {
    const auto engine = fake::twice();
    Runner runner{engine, {.outputs = std::vector<std::string>{}}};
    const trtw::Stream stream;
    const trtw::DeviceMemory x{16};
    trtw::Input input;
    input.source = trtw::Source::device;
    input.data = x.data();
    input.shape = {4};
    std::optional<CallGate::Closed> refit{engine->gate()};
    std::atomic<bool> is_over = false;
    std::thread caller{[&] {
        cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal);
        runner.enqueue(call_of({input}), stream.get());
        cudaGraph_t graph = nullptr;
        cudaStreamEndCapture(stream.get(), &graph);
        cudaGraphDestroy(graph);
        is_over = true;
    }};
    std::this_thread::sleep_for(50ms);
    CHECK_FALSE(is_over);
    refit.reset();
    caller.join();
    CHECK(is_over);
}

TEST_CASE("graphs forget the weights of before") {
    const auto engine = fake::twice();
    Runner runner{engine, {}};
    const Values x{3};
    for (int i = 0; i < 4; ++i) {
        CHECK(run(runner, {host(x)}) == Values{7});
    }
    CHECK(runner.status().graphs == 1);
    {
        const CallGate::Closed closed{engine->gate()};
        engine->weight = 100;
    }
    for (int i = 0; i < 4; ++i) {
        CHECK(run(runner, {host(x)}) == Values{106});
    }
    CHECK(runner.status().graphs == 1);
}

TEST_CASE("calls wait for the end of a refit") {
    const auto engine = fake::twice();
    Runner runner{engine, {}};
    const Values x{3};
    std::optional<CallGate::Closed> closed{std::in_place, engine->gate()};
    std::atomic<bool> ran = false;
    std::thread other{[&] {
        CHECK(run(runner, {host(x)}) == Values{106});
        ran = true;
    }};
    std::this_thread::sleep_for(30ms);
    CHECK_FALSE(ran);
    engine->weight = 100;
    closed.reset();
    other.join();
    CHECK(ran);
}
