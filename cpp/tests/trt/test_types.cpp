#include "trt/types.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <limits>

using nvinfer1::DataType;
using namespace trtw;

TEST_CASE("every data type's name leads back to it") {
    const auto names = dtype_names();
    CHECK(names.size() >= 7);
    for (const std::string& name : names) {
        CHECK(dtype_name(parse_dtype(name)) == name);
        CHECK(dtype_bits(parse_dtype(name)) > 0);
    }
}

TEST_CASE("short names are understood") {
    CHECK(parse_dtype("fp16") == DataType::kHALF);
    CHECK(parse_dtype("fp32") == DataType::kFLOAT);
}

TEST_CASE("types that only later versions have") {
#if TRTW_TRT_DIMS64
    CHECK(dtype_bits(parse_dtype("int4")) == 4);
    CHECK(dtype_bits(parse_dtype("int64")) == 64);
    CHECK(parse_dtype("bf16") == DataType::kBF16);
#else
    CHECK_THROWS_WITH_AS(parse_dtype("bfloat16"), doctest::Contains("TensorRT 8.6"), UsageProblem);
    CHECK_THROWS_AS(parse_dtype("int64"), UsageProblem);
#endif
    CHECK_THROWS_AS(parse_dtype("float"), UsageProblem);
}

TEST_CASE("shapes go both ways") {
    const std::vector<std::int64_t> shape{-1, 3, 224, 224};
    CHECK(to_vector(to_dims(shape, "x")) == shape);
    CHECK(to_vector(to_dims({}, "x")).empty());
    nvinfer1::Dims invalid{};
    invalid.nbDims = -1;
    CHECK(to_vector(invalid).empty());
}

TEST_CASE("shapes that TensorRT cannot hold are refused by name") {
    CHECK_THROWS_WITH_AS(to_dims(std::vector<std::int64_t>(9, 1), "mask"), doctest::Contains("'mask'"), UsageProblem);
#if !TRTW_TRT_DIMS64
    const std::vector<std::int64_t> huge{std::int64_t{std::numeric_limits<std::int32_t>::max()} + 1};
    CHECK_THROWS_WITH_AS(to_dims(huge, "mask"), doctest::Contains("out of range"), UsageProblem);
#endif
}
