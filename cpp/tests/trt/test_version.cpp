#include "trt/entry_points.hpp"
#include "trt/version.hpp"
#include "trtw/library.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace trtw;

TEST_CASE("the macro counts as TensorRT's entry points do") {
    const std::string expected = std::to_string(NV_TENSORRT_MAJOR) + "." + std::to_string(NV_TENSORRT_MINOR) + "." +
                                 std::to_string(NV_TENSORRT_PATCH);
    CHECK(version_text(TRTW_TRT_VERSION) == expected);
    CHECK(expected.starts_with(TRTW_TRT_VERSION_TEXT "."));
    CHECK(library_status("/no/such/folder").headers == expected);
}

TEST_CASE("what a version has follows from its number") {
    CHECK(TRTW_TRT_AT_LEAST(8, 6));
    CHECK_FALSE(TRTW_TRT_AT_LEAST(NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR + 1));
    CHECK(TRTW_TRT_AT_LEAST(NV_TENSORRT_MAJOR - 1, NV_TENSORRT_MINOR + 1));
    CHECK(TRTW_TRT_WEAK_TYPING == (NV_TENSORRT_MAJOR < 11));
    CHECK((TRTW_TRT_WEAK_TYPING || TRTW_TRT_STRONG_TYPING));
    CHECK(has(8, 6));
    CHECK_FALSE(has(NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR + 1));
    CHECK(version_in_words() == "TensorRT " TRTW_TRT_VERSION_TEXT);
}
