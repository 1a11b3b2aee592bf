// A call that is refused leaves everything as it was.
#include "device/check.hpp"
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <memory>

using fake::call_of;
using fake::host;
using fake::run;
using fake::state;
using fake::Values;
using trtw::Call;
using trtw::OutOfMemory;
using trtw::Runner;
using trtw::RunnerOptions;
using trtw::UsageProblem;

namespace {

RunnerOptions with_state() {
    RunnerOptions options;
    options.state = {{"h_next", "h"}};
    return options;
}

// A runner whose state is 10, 10, 10, 10.
struct Stateful {
    explicit Stateful(std::int64_t elements = -1) : runner{fake::recurrent(elements), with_state()} {
        runner.reset_state({{1, host(tens)}});
    }
    void check_state() { CHECK(run(runner, {host(ones), state()}) == Values{12, 12, 12, 12}); }

    const Values tens{10, 10, 10, 10};
    const Values ones{1, 1, 1, 1};
    const Values other{5, 5, 5, 5};
    Runner runner;
};

} // namespace

TEST_CASE("a call that no profile allows keeps the state") {
    Stateful s;
    const Values nine(9, 1);
    CHECK_THROWS_WITH_AS(s.runner.run(call_of({host(nine), host(nine)})), doctest::Contains("no profile"),
                         UsageProblem);
    s.check_state();
}

TEST_CASE("a call whose shapes TensorRT refuses keeps the state") {
    Stateful s;
    const Values two{1, 1};
    CHECK_THROWS_WITH_AS(s.runner.run(call_of({host(s.ones), host(two)})), doctest::Contains("lengths differ"),
                         UsageProblem);
    CHECK_THROWS_AS(s.runner.run(call_of({host(two), state()})), UsageProblem);
    s.check_state();
}

TEST_CASE("a call that asks for an index that is not there keeps the state") {
    Stateful s;
    Call call = call_of({host(s.ones), host(s.other)});
    call.at = {3, std::nullopt};
    CHECK_THROWS_WITH_AS(s.runner.run(call), doctest::Contains("no index"), UsageProblem);
    s.check_state();
}

TEST_CASE("a call that finds no memory keeps the state") {
    Stateful s;
    const Values eight(8, 1);
    {
        const fake::FullDevice full;
        CHECK_THROWS_AS(s.runner.run(call_of({host(eight), host(eight)})), OutOfMemory);
    }
    s.check_state();
}

TEST_CASE("a known call that finds no memory keeps the state that it brought another one for") {
    Stateful s{4};
    std::deque<std::shared_ptr<trtw::DeviceMemory>> held;
    const auto hold = [&](const Values& x) {
        const auto finished = s.runner.run(call_of({host(x), state()}));
        held.push_back(finished.outputs()[0].device);
    };
    const Values zeros(4, 0);
    for (int i = 0; i < 4; ++i) {
        hold(zeros); // both sets of outputs are held, and every call is known
    }
    {
        const fake::FullDevice full;
        CHECK_THROWS_AS(s.runner.run(call_of({host(s.ones), host(s.other)})), OutOfMemory);
        CHECK_THROWS_AS(s.runner.run(call_of({host(s.ones), state()})), OutOfMemory);
    }
    s.check_state();
}

TEST_CASE("an output that finds no memory only while the engine runs keeps the state") {
    auto engine = fake::recurrent(-1);
    engine->open_output = 0;
    Runner runner{engine, with_state()};
    const Values ones{1, 1, 1, 1};
    const Values tens{10, 10, 10, 10};
    const Values eight(8, 5);
    const Values more(8, 1);
    for (const bool known : {false, true}) {
        if (known) { // a call of eight elements has been there, so that only the output is to be allocated
            CHECK(run(runner, {host(more), host(eight)}) == Values(8, 7));
        }
        runner.reset_state({{1, host(tens)}});
        auto kept = runner.run(call_of({host(ones), state()})).outputs()[0].device;
        auto other = runner.run(call_of({host(ones), state()})).outputs()[0].device;
        runner.reset_state({{1, host(tens)}});
        {
            const fake::FullDevice full;
            CHECK_THROWS_AS(runner.run(call_of({host(more), host(eight)})), OutOfMemory);
            CHECK_THROWS_AS(runner.run(call_of({host(ones), host(ones)})), OutOfMemory);
            if (!known) { // else there is memory for it from the round before
                CHECK_THROWS_AS(runner.run(call_of({host(ones), state()})), OutOfMemory);
            }
        }
        CHECK(run(runner, {host(ones), state()}) == Values{12, 12, 12, 12});
        CHECK(run(runner, {host(ones), host(ones)}) == Values{3, 3, 3, 3});
        CHECK(run(runner, {host(ones), state()}) == Values{4, 4, 4, 4});
    }
}

TEST_CASE("a call that has room for another shape than an output's keeps the state") {
    for (const bool open : {false, true}) {
        auto engine = fake::recurrent(-1);
        if (open) {
            engine->open_output = 0;
        }
        Runner runner{engine, with_state()};
        const Values tens{10, 10, 10, 10};
        const Values ones{1, 1, 1, 1};
        runner.reset_state({{1, host(tens)}});
        for (const bool given : {false, true}) {
            Call call = call_of({host(ones), given ? host(ones) : state()});
            call.room = {trtw::Shape{3}, std::nullopt};
            CHECK_THROWS_WITH_AS(runner.run(call), doctest::Contains("'y' has the shape [3], but the output has [4]"),
                                 UsageProblem);
            CHECK_THROWS_AS(static_cast<void>(runner.submit(call)), UsageProblem);
        }
        Call call = call_of({host(ones), state()});
        call.room = {trtw::Shape{4}, std::nullopt};
        CHECK(fake::values(runner.run(call).outputs()[0]) == Values{12, 12, 12, 12});
        call.room = {std::nullopt};
        CHECK_THROWS_WITH_AS(runner.run(call), doctest::Contains("room"), UsageProblem);
    }
}

TEST_CASE("a refused call keeps state that is given together with it") {
    Stateful s{4};
    const Values three{1, 1, 1};
    CHECK_THROWS_WITH_AS(s.runner.run(call_of({host(s.ones), host(three)})), doctest::Contains("'h' has the shape [3]"),
                         UsageProblem);
    s.check_state();
}

TEST_CASE("a reset that is refused, or finds no memory, keeps the state") {
    Stateful s;
    const Values eight(8, 1);
    trtw::Input wrong = host(eight);
    wrong.shape = {2, 4};
    CHECK_THROWS_WITH_AS(s.runner.reset_state({{1, host(s.other)}, {1, wrong}}), doctest::Contains("[2, 4]"),
                         UsageProblem);
    CHECK_THROWS_AS(s.runner.reset_state({{0, host(s.ones)}}), UsageProblem);
    CHECK_THROWS_AS(s.runner.reset_state({{7, host(s.ones)}}), UsageProblem);
    s.check_state();
}

TEST_CASE("calls with too little in them are refused") {
    Runner runner{fake::recurrent(), {}};
    const Values ones{1, 1, 1, 1};
    CHECK_THROWS_WITH_AS(runner.run(call_of({host(ones)})), doctest::Contains("1 inputs, the engine 2"), UsageProblem);
    CHECK_THROWS_AS(runner.run(call_of({host(ones), host(ones), host(ones)})), UsageProblem);
    CHECK_THROWS_AS(runner.run(call_of({host(ones), state()})), UsageProblem);
    Call call = call_of({host(ones), host(ones)});
    call.to_host = std::vector<bool>{true};
    CHECK_THROWS_WITH_AS(runner.run(call), doctest::Contains("to_host"), UsageProblem);
    call.to_host.reset();
    call.at = {std::nullopt};
    CHECK_THROWS_WITH_AS(runner.run(call), doctest::Contains("2 outputs"), UsageProblem);
    call.at.clear();
    call.inputs[1].data = nullptr;
    CHECK_THROWS_WITH_AS(runner.run(call), doctest::Contains("no data"), UsageProblem);
    call.inputs[1] = host(ones);
    call.inputs[1].strides = {4, 4};
    CHECK_THROWS_WITH_AS(runner.run(call), doctest::Contains("strides"), UsageProblem);
    CHECK(run(runner, {host(ones), host(ones)}) == Values{3, 3, 3, 3});
}

TEST_CASE("images that do not fit are refused before anything else happens") {
    Stateful s{4};
    trtw::Input images;
    images.source = trtw::Source::images;
    images.shape = {4};
    CHECK_THROWS_AS(s.runner.run(call_of({images, host(s.other)})), UsageProblem);
    s.check_state();
}

TEST_CASE("shapes that are refused take no graph from those that are not") {
    Runner runner{fake::twice(), {}};
    const Values four(4, 1);
    for (int i = 0; i < 4; ++i) {
        CHECK(run(runner, {host(four)}) == Values(4, 3));
    }
    for (std::size_t size = 9; size < 149; ++size) {
        const Values wrong(size, 1);
        CHECK_THROWS_AS(run(runner, {host(wrong)}), UsageProblem);
    }
    const auto graphs = fake::launched_graphs();
    CHECK(run(runner, {host(four)}) == Values(4, 3));
    CHECK(fake::launched_graphs() == graphs + 1);
}

TEST_CASE("a call by names, and values by type") {
    Runner runner{fake::recurrent(4), {}};
    const Values x{1, 2, 3, 4};
    const Values h(4, 10);
    const auto finished = runner.run({{"h", trtw::view(h, {4})}, {"x", trtw::view(x, {4})}});
    CHECK(finished.values<float>("y")[3] == 15);
    CHECK(finished.output("h_next").values<float>().size() == 4);
    CHECK_THROWS_WITH_AS(finished.output("z"), doctest::Contains("no output 'z'"), UsageProblem);
    CHECK_THROWS_WITH_AS(finished.values<std::int32_t>("y"), doctest::Contains("has dtype float32, not int32"),
                         UsageProblem);
}

TEST_CASE("names, types and shapes of such a call that do not fit are refused, with a code") {
    Runner runner{fake::recurrent(4), {}};
    const Values x(4, 1);
    const std::vector<std::int32_t> numbers(4);
    const auto in = trtw::view(x, {4});
    CHECK_THROWS_WITH_AS(runner.run({{"x", in}}), doctest::Contains("'h' is missing"), UsageProblem);
    CHECK_THROWS_WITH_AS(runner.run({{"x", in}, {"h", in}, {"k", in}}), doctest::Contains("no input 'k'"),
                         UsageProblem);
    CHECK_THROWS_WITH_AS(runner.run({{"x", in}, {"h", trtw::view(numbers, {4})}}),
                         doctest::Contains("has dtype float32, not int32"), UsageProblem);
    try {
        static_cast<void>(trtw::view(x, {5}));
        CHECK(false);
    } catch (const trtw::Error& problem) {
        CHECK(problem.code() == trtw::ErrorCode::usage);
    }
}
