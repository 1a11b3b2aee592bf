#include "build/builder_config.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

using namespace trtw;

namespace {

bool supported(const std::function<void(BuildOptions&)>& change) {
    BuildOptions options;
    change(options);
    try {
        check_supported(options);
    } catch (const UsageProblem& problem) {
        CHECK(std::string{problem.what()}.find(TRTW_TRT_VERSION_TEXT) != std::string::npos);
        return false;
    }
    return true;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

} // namespace

TEST_CASE("options come with their versions") {
    CHECK(supported([](BuildOptions&) {}));
    CHECK(supported([](BuildOptions& o) { o.refit = RefitKind::full; }));
    CHECK(supported([](BuildOptions& o) { o.hardware_compatibility = HardwareCompatibility::ampere_plus; }));
    CHECK(supported([](BuildOptions& o) { o.version_compatible = true; }));
    CHECK(supported([](BuildOptions& o) { o.strip_weights = true; }) == TRTW_TRT_AT_LEAST(10, 0));
    CHECK(supported([](BuildOptions& o) { o.refit = RefitKind::identical; }) == TRTW_TRT_AT_LEAST(10, 0));
    CHECK(supported([](BuildOptions& o) { o.refit = RefitKind::individual; }) == TRTW_TRT_AT_LEAST(10, 2));
    CHECK(supported([](BuildOptions& o) { o.weight_streaming = true; }) == TRTW_TRT_AT_LEAST(10, 0));
    CHECK(supported([](BuildOptions& o) { o.error_on_timing_cache_miss = true; }) == TRTW_TRT_AT_LEAST(10, 0));
    CHECK(supported([](BuildOptions& o) { o.editable_timing_cache = true; }) == TRTW_TRT_AT_LEAST(10, 8));
    CHECK(supported([](BuildOptions& o) { o.max_tactics = 4; }) == TRTW_TRT_AT_LEAST(10, 4));
    CHECK(supported([](BuildOptions& o) { o.tiling_optimization_level = TilingLevel::fast; }) ==
          TRTW_TRT_AT_LEAST(10, 8));
    CHECK(supported([](BuildOptions& o) { o.strict_nans = true; }) == TRTW_TRT_AT_LEAST(10, 6));
    CHECK(supported([](BuildOptions& o) { o.build_route = "r"; }) == TRTW_TRT_AT_LEAST(11, 1));
}

TEST_CASE("unknown names are refused before anything is built") {
    CHECK_FALSE(supported([](BuildOptions& o) { o.memory_pools["wrkspace"] = 1; }));
    CHECK_FALSE(supported([](BuildOptions& o) { o.tactic_sources["CUBLAS"] = false; }));
    CHECK_FALSE(supported([](BuildOptions& o) { o.preview_features["none"] = true; }));
}

TEST_CASE("every listed name is accepted") {
    for (const std::string& name : memory_pool_names()) {
        CHECK(supported([&](BuildOptions& o) { o.memory_pools[name] = 1; }));
    }
    for (const std::string& name : tactic_source_names()) {
        CHECK(supported([&](BuildOptions& o) { o.tactic_sources[name] = true; }));
    }
    for (const std::string& name : preview_feature_names()) {
        CHECK(supported([&](BuildOptions& o) { o.preview_features[name] = true; }));
    }
    CHECK(contains(memory_pool_names(), "workspace"));
    CHECK(contains(io_format_names(), "linear"));
    CHECK(contains(tactic_source_names(), "cublas") == TRTW_TRT_WEAK_TYPING);
}

TEST_CASE("a mask of tactic sources is told by names") {
    CHECK(tactic_source_names_in(0).empty());
    const auto jit = 1U << static_cast<unsigned>(nvinfer1::TacticSource::kJIT_CONVOLUTIONS);
    CHECK(tactic_source_names_in(jit) == std::vector<std::string>{"jit_convolutions"});
    CHECK(tactic_source_names_in(~0U) == tactic_source_names());
}
