#include "build/progress.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

using namespace trtw;

TEST_CASE("progress without a callback goes on") {
    Progress progress{{}};
    CHECK(progress.report("parse", 0, 1));
    CHECK_NOTHROW(progress.throw_if_ended());
}

TEST_CASE("a refusal ends the build and is remembered") {
    int calls = 0;
    Progress progress{[&calls](std::string_view, int, int) { return ++calls < 2; }};
    CHECK(progress.report("a", 0, 1));
    CHECK_FALSE(progress.report("a", 1, 1));
    CHECK_FALSE(progress.report("b", 0, 1));
    CHECK(calls == 2); // asked no more after its refusal
    CHECK_THROWS_AS(progress.throw_if_ended(), trtw::Cancelled);
}

TEST_CASE("the callback's exception crosses TensorRT, which knows none") {
    Progress progress{[](std::string_view, int, int) -> bool { throw std::domain_error("mine"); }};
    CHECK_FALSE(progress.report("a", 0, 1));
    CHECK_THROWS_AS(progress.throw_if_ended(), std::domain_error);
}

TEST_CASE("the first failure from elsewhere counts") {
    Progress progress{{}};
    progress.fail(std::make_exception_ptr(std::domain_error("first")));
    progress.fail(std::make_exception_ptr(std::runtime_error("second")));
    CHECK_THROWS_AS(progress.throw_if_ended(), std::domain_error);
}

#if TRTW_TRT_PROGRESS_MONITOR
TEST_CASE("TensorRT's phases are passed on with their totals") {
    std::vector<std::tuple<std::string, int, int>> seen;
    Progress progress{[&seen](std::string_view phase, int step, int total) {
        seen.emplace_back(phase, step, total);
        return true;
    }};
    ProgressMonitor monitor{progress};
    monitor.phaseStart("outer", nullptr, 2);
    monitor.phaseStart("inner", "outer", 5);
    CHECK(monitor.stepComplete("inner", 0));
    monitor.phaseFinish("inner");
    CHECK(monitor.stepComplete("outer", 0));
    using Step = std::tuple<std::string, int, int>;
    CHECK(seen ==
          std::vector<Step>{{"outer", 0, 2}, {"inner", 0, 5}, {"inner", 1, 5}, {"inner", 5, 5}, {"outer", 1, 2}});
}
#endif
