#include "run/slice.hpp"
#include "trtw/error.hpp"
#include "trtw/tensor.hpp"

#include <doctest/doctest.h>

using namespace trtw;

namespace {

constexpr std::int64_t operator""_exp(unsigned long long bits) {
    return std::int64_t{1} << bits;
}

TensorInfo tensor(std::size_t bits) {
    TensorInfo info;
    info.name = "x";
    info.bits = bits;
    return info;
}

} // namespace

TEST_CASE("sizes are counted in whole bytes") {
    CHECK(volume({}) == 1);
    CHECK(volume({2, 3, 4}) == 24);
    CHECK(byte_size(tensor(32), {2, 3}) == 24);
    CHECK(byte_size(tensor(4), {3}) == 2);
    CHECK(byte_size(tensor(32), {}) == 4);
}

TEST_CASE("a size that 64 bits do not hold is refused, never a small one") {
    CHECK_THROWS_WITH_AS(byte_size(tensor(32), {59_exp}), doctest::Contains("'x' in the shape [5764607523034"),
                         UsageProblem);
    CHECK_THROWS_AS(byte_size(tensor(8), {30_exp, 30_exp}), UsageProblem); // the bits, not the elements
    CHECK_THROWS_WITH_AS(volume({32_exp, 32_exp}), doctest::Contains("more elements"), UsageProblem);
    CHECK_THROWS_AS(volume({62_exp, 2}), UsageProblem);
    CHECK(byte_size(tensor(64), {56_exp}) == 59_exp);
    CHECK_THROWS_AS(slice_at(tensor(32), {1, 40_exp, 40_exp}, 0), UsageProblem);
}

TEST_CASE("nothing is nothing, whatever the other dimensions are") {
    CHECK(volume({62_exp, 0, 62_exp}) == 0);
    CHECK(byte_size(tensor(32), {62_exp, 62_exp, 0}) == 0);
}

TEST_CASE("an open dimension is one that is negative") {
    CHECK(is_dynamic({1, -1}));
    CHECK_FALSE(is_dynamic({1, 0}));
    CHECK_FALSE(is_dynamic({}));
}

TEST_CASE("shapes are written with a question mark for what is open") {
    CHECK(bracketed({-1, 3, 224}) == "[?, 3, 224]");
    CHECK(bracketed({}) == "[]");
    CHECK(shape_text(Shape{-1, 3, 224}) == "-1x3x224");
    CHECK(shape_text({}) == "scalar");
}

TEST_CASE("a tensor is found by its name") {
    std::vector<TensorInfo> tensors(2);
    tensors[0].name = "a";
    tensors[1].name = "b";
    CHECK(index_of(tensors, "b") == 1);
    CHECK_FALSE(index_of(tensors, "").has_value());
}
