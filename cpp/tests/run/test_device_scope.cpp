// The caller's device stays selected.
#include "device/scope.hpp"
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/bench.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

using fake::call_of;
using fake::host;
using fake::Values;
using trtw::DeviceScope;
using trtw::Runner;

TEST_CASE("a scope gives the device back") {
    {
        const DeviceScope scope{1};
        CHECK(scope.device() == 1);
        CHECK(fake::device() == 1);
        const DeviceScope inner{-1};
        CHECK(inner.device() == 1);
    }
    CHECK(fake::device() == 0);
    CHECK_THROWS_AS(DeviceScope{7}, trtw::DeviceFailure);
    CHECK(fake::device() == 0);
}

TEST_CASE("a runner works on its engine's device and leaves the caller's selected") {
    const Values x{3};
    CHECK(cudaSetDevice(1) == cudaSuccess); // the engine's is 0
    {
        const auto engine = fake::twice();
        Runner runner{engine, {}};
        CHECK(fake::device() == 1);
        CHECK(fake::run(runner, {host(x)}) == Values{7});
        CHECK(fake::device() == 1);
        {
            Runner::Ticket ticket = runner.submit(call_of({host(x)}));
        }
        CHECK(fake::device() == 1);
        const Values wrong(9, 1);
        CHECK_THROWS_AS(runner.run(call_of({host(wrong)})), trtw::UsageProblem);
        CHECK(fake::device() == 1);
        trtw::BenchOptions options;
        options.duration_s = 0;
        options.warmup_ms = 0;
        options.iterations = 1;
        options.threads = true;
        static_cast<void>(trtw::bench(engine, {host(x)}, options));
        CHECK(fake::device() == 1);
    }
    CHECK(fake::device() == 1);
    CHECK(cudaSetDevice(0) == cudaSuccess);
}
