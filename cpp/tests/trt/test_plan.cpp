#include "trt/version.hpp"
#include "trtw/error.hpp"
#include "trtw/plan.hpp"

#include <doctest/doctest.h>

#include <string>

using trtw::explain_refusal;

namespace {

constexpr auto library_name = "TensorRT 8.6.0 (/opt/libnvinfer.so.8)";

bool explained(const std::string& log, const std::string& words) {
    const std::string text = explain_refusal(log, library_name);
    // whatever the cause: what is loaded, and what TensorRT itself says
    CHECK(text.find(library_name) != std::string::npos);
    CHECK(text.ends_with(log));
    return text.find(words) != std::string::npos;
}

} // namespace

TEST_CASE("a plan that TensorRT refuses for its version is told so") {
    constexpr auto words = "built by another version of TensorRT";
    CHECK(
        explained("6: The engine plan file is not compatible with this version of TensorRT, expecting library version "
                  "8.6.0 got 8.5.3, please rebuild.",
                  words));
    CHECK(
        explained("1: Serialization (Serialization assertion stdVersionRead == serializationVersion failed.Version tag "
                  "does not match. Note: Current Version: 239, Serialized Engine Version: 213)",
                  words));
    CHECK_FALSE(explained(
        "1: Serialization (Serialization assertion plan->header.magicTag == rt::kPLAN_MAGIC_TAG failed.)", words));
}

TEST_CASE("a plan that TensorRT refuses for another cause is told that one") {
    CHECK(explained(
        "6: The engine plan file is generated on an incompatible device, expecting compute 9.0 got compute 8.6",
        "built for another GPU"));
    CHECK(explained("1: getPluginCreator could not find plugin: Custom version: 1", "plugin that is not loaded"));
    CHECK(explained("1: Serialization (Serialization assertion plan->header.size == blobSize failed.)", "truncated"));
    CHECK(explained("", "not an engine"));
}

TEST_CASE("a weight streaming budget needs a version that has one, and is no negative number") {
    using namespace trtw;
    PlanOptions options;
    CHECK_NOTHROW(check_plan_options(options));
    options.weight_streaming_budget = WeightBudget::automatic;
#if TRTW_IN_HEADERS(TRTW_TRT_WEIGHT_BUDGET)
    CHECK_NOTHROW(check_plan_options(options));
    options.weight_streaming_budget = WeightBudget{0}; // as little as possible
    CHECK_NOTHROW(check_plan_options(options));
    options.weight_streaming_budget = WeightBudget{-2};
    CHECK_THROWS_WITH_AS(check_plan_options(options), doctest::Contains("not -2"), trtw::UsageProblem);
#else
    CHECK_THROWS_WITH_AS(check_plan_options(options), doctest::Contains("8.6 has no weight streaming"),
                         trtw::UsageProblem);
    // before the bytes are looked at, and before TensorRT is opened
    CHECK_THROWS_WITH_AS(Plan::load({}, options), doctest::Contains("weight streaming"), trtw::UsageProblem);
#endif
}
