#include "build/precision.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace trtw;

namespace {

bool has(const std::string& precision) {
    const auto names = precision_names();
    return std::find(names.begin(), names.end(), precision) != names.end();
}

bool accepts(bool BuildOptions::* flag) {
    BuildOptions options;
    options.*flag = true;
    try {
        check_precision_supported(options);
    } catch (const UsageProblem&) {
        return false;
    }
    return true;
}

} // namespace

TEST_CASE("every version has tf32, fp16 and int8") {
    CHECK(has("tf32"));
    CHECK(has("fp16"));
    CHECK(has("int8"));
    CHECK(accepts(&BuildOptions::fp16));
    CHECK(accepts(&BuildOptions::int8));
    CHECK_NOTHROW(check_precision_supported({}));
}

TEST_CASE("what is listed is what is accepted") {
    CHECK(has("bf16") == accepts(&BuildOptions::bf16));
    CHECK(has("fp8") == accepts(&BuildOptions::fp8));
    CHECK(has("int4") == accepts(&BuildOptions::int4));
    CHECK(has("fp4") == accepts(&BuildOptions::fp4));
}

TEST_CASE("precisions come with their versions") {
    CHECK(has("bf16") == TRTW_TRT_AT_LEAST(10, 0));
    CHECK(has("fp8") == TRTW_TRT_AT_LEAST(10, 0)); // 8.6 has the flag and says that it is not supported
    CHECK(has("fp4") == TRTW_TRT_AT_LEAST(10, 8));
}

TEST_CASE("a layer is told to be quantised by what it is, not by its tensor before the build") {
    using nvinfer1::DataType;
    using nvinfer1::LayerType;
    CHECK(!quantized_type(LayerType::kCONVOLUTION, DataType::kINT8));
    CHECK(quantized_type(LayerType::kQUANTIZE, DataType::kINT8) == DataType::kINT8);
    CHECK(quantized_type(LayerType::kDEQUANTIZE, DataType::kINT8) == DataType::kINT8);
#if NV_TENSORRT_MAJOR < 10
    // it says fp32 of both until the network is built
    CHECK(quantized_type(LayerType::kQUANTIZE, DataType::kFLOAT) == DataType::kINT8);
    CHECK(quantized_type(LayerType::kDEQUANTIZE, DataType::kFLOAT) == DataType::kINT8);
#else
    CHECK(quantized_type(LayerType::kQUANTIZE, DataType::kFP8) == DataType::kFP8);
    CHECK(quantized_type(LayerType::kDEQUANTIZE, DataType::kINT4) == DataType::kINT4);
    CHECK(!quantized_type(LayerType::kDEQUANTIZE, DataType::kFLOAT)); // the Quantize layer before it tells
#endif
}

#if TRTW_TRT_WEAK_TYPING
TEST_CASE("int8 needs scales, from Q/DQ nodes or calibration, and not from both") {
    using nvinfer1::DataType;
    const NetworkTypes plain{{}, {DataType::kFLOAT}};
    const NetworkTypes scaled{{DataType::kINT8}, {DataType::kFLOAT}};
    BuildOptions options;
    CHECK_NOTHROW(check_precision_of(plain, options));
    CHECK_THROWS_WITH_AS(check_precision_of(scaled, options), doctest::Contains("int8 is not requested"), UsageProblem);
    options.int8 = true;
    CHECK_NOTHROW(check_precision_of(scaled, options));
    CHECK_THROWS_WITH_AS(check_precision_of(plain, options), doctest::Contains("no Q/DQ nodes"), UsageProblem);
    options.fp16 = true;
    CHECK_NOTHROW(check_precision_of(scaled, options));
    options.calibration = std::make_shared<Calibration>();
    CHECK_NOTHROW(check_precision_of(plain, options));
    CHECK_THROWS_WITH_AS(check_precision_of(scaled, options), doctest::Contains("omit one"), UsageProblem);
}
#endif

TEST_CASE("a request that the version cannot honour names the version") {
    BuildOptions options;
#if TRTW_TRT_WEAK_TYPING && !TRTW_TRT_STRONG_TYPING
    options.strongly_typed = true;
    CHECK_THROWS_WITH_AS(check_precision_supported(options), doctest::Contains("8.6 has no strongly typed"),
                         UsageProblem);
#elif TRTW_TRT_WEAK_TYPING
    options.strongly_typed = true;
    CHECK_NOTHROW(check_precision_supported(options));
#else
    options.precision_constraints = PrecisionConstraints::obey;
    CHECK_THROWS_WITH_AS(check_precision_supported(options), doctest::Contains("has no precision constraints"),
                         UsageProblem);
    options = {};
    options.int8 = true;
    options.calibration = std::make_shared<Calibration>();
    CHECK_THROWS_WITH_AS(check_precision_supported(options), doctest::Contains("Q/DQ"), UsageProblem);
#endif
}
