#include "trtw/build_options.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace trtw;

namespace {

// What is said of options that one change made wrong; empty where they pass.
std::string problem(const std::function<void(BuildOptions&)>& change) {
    BuildOptions options;
    change(options);
    try {
        validate(options);
    } catch (const UsageProblem& found) {
        return found.what();
    }
    return {};
}

bool mentions(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::shared_ptr<Calibration> calibration_from_cache() {
    auto calibration = std::make_shared<Calibration>();
    calibration->cache = "bytes";
    return calibration;
}

} // namespace

TEST_CASE("the defaults are valid") {
    CHECK(problem([](BuildOptions&) {}).empty());
}

TEST_CASE("numbers have their range, ends included") {
    CHECK(problem([](BuildOptions& o) { o.optimization_level = 0; }).empty());
    CHECK(problem([](BuildOptions& o) { o.optimization_level = 5; }).empty());
    CHECK(mentions(problem([](BuildOptions& o) { o.optimization_level = 6; }), "optimization_level is 6"));
    CHECK(mentions(problem([](BuildOptions& o) { o.avg_timing_iterations = 0; }), "avg_timing_iterations"));
    CHECK(problem([](BuildOptions& o) { o.max_aux_streams = 0; }).empty());
    CHECK_FALSE(problem([](BuildOptions& o) { o.max_aux_streams = -1; }).empty());
    CHECK_FALSE(problem([](BuildOptions& o) { o.device = -1; }).empty());
}

TEST_CASE("options of the timing cache that exclude or need each other") {
    CHECK_FALSE(problem([](BuildOptions& o) {
                    o.disable_timing_cache = true;
                    o.timing_cache = Bytes{};
                }).empty());
    CHECK_FALSE(problem([](BuildOptions& o) { o.error_on_timing_cache_miss = true; }).empty());
    CHECK_FALSE(problem([](BuildOptions& o) {
                    o.error_on_timing_cache_miss = true;
                    o.timing_cache = Bytes{};
                }).empty());
    CHECK(problem([](BuildOptions& o) {
              o.error_on_timing_cache_miss = true;
              o.timing_cache = Bytes(1);
          }).empty());
}

TEST_CASE("calibration needs int8, something to read, and a weakly typed network") {
    CHECK(mentions(problem([](BuildOptions& o) { o.calibration = calibration_from_cache(); }), "int8"));
    CHECK(problem([](BuildOptions& o) {
              o.calibration = calibration_from_cache();
              o.int8 = true;
          }).empty());
    CHECK_FALSE(problem([](BuildOptions& o) {
                    o.calibration = std::make_shared<Calibration>();
                    o.int8 = true;
                }).empty());
    CHECK(mentions(problem([](BuildOptions& o) {
                       o.calibration = calibration_from_cache();
                       o.int8 = o.strongly_typed = true;
                   }),
                   "Q/DQ"));
}

TEST_CASE("layer rules bind only with precision constraints, and never a strongly typed network") {
    const std::vector<LayerRule> rules{{"conv*", "float32"}};
    CHECK_FALSE(problem([&](BuildOptions& o) { o.layer_precisions = rules; }).empty());
    CHECK_FALSE(problem([&](BuildOptions& o) { o.layer_output_types = rules; }).empty());
    CHECK(problem([&](BuildOptions& o) {
              o.layer_precisions = rules;
              o.precision_constraints = PrecisionConstraints::obey;
          }).empty());
    CHECK(mentions(problem([&](BuildOptions& o) {
                       o.layer_precisions = rules;
                       o.precision_constraints = PrecisionConstraints::obey;
                       o.strongly_typed = true;
                   }),
                   "strongly typed"));
}

TEST_CASE("options that need another") {
    CHECK_FALSE(problem([](BuildOptions& o) { o.exclude_lean_runtime = true; }).empty());
    CHECK_FALSE(problem([](BuildOptions& o) { o.gpu_fallback = true; }).empty());
    CHECK(problem([](BuildOptions& o) {
              o.gpu_fallback = true;
              o.dla_core = 0;
          }).empty());
}
