#include "run/profile_choice.hpp"

#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

using namespace trtw;

namespace {

TensorInfo input(const std::string& name, std::vector<ProfileRange> profiles) {
    TensorInfo tensor;
    tensor.name = name;
    tensor.is_input = true;
    tensor.profiles = std::move(profiles);
    return tensor;
}

CallShapes call(std::vector<Shape> shapes) {
    std::vector<Shape> values(shapes.size());
    return {std::move(shapes), std::move(values)};
}

std::string refusal(const std::vector<TensorInfo>& inputs, const CallShapes& shapes, std::optional<int> fixed = {}) {
    try {
        static_cast<void>(choose_profile(inputs, shapes, fixed));
    } catch (const trtw::UsageProblem& problem) {
        return problem.what();
    }
    return {};
}

const ProfileRange small{{1, 3}, {4, 3}, {8, 3}};
const ProfileRange large{{1, 3}, {16, 3}, {64, 3}};
const ProfileRange apart{{100, 3}, {100, 3}, {200, 3}};

} // namespace

TEST_CASE("the profile with the smallest maximum serves, unless it is another's optimum") {
    const std::vector<TensorInfo> inputs{input("x", {large, small, apart})};
    CHECK(choose_profile(inputs, call({{2, 3}}), {}) == 1);
    CHECK(choose_profile(inputs, call({{4, 3}}), {}) == 1);
    CHECK(choose_profile(inputs, call({{9, 3}}), {}) == 0);
    CHECK(choose_profile(inputs, call({{150, 3}}), {}) == 2);
    const std::vector<TensorInfo> swapped{input("x", {small, {{1, 3}, {2, 3}, {64, 3}}})};
    CHECK(choose_profile(swapped, call({{2, 3}}), {}) == 1);
}

TEST_CASE("a fixed profile leaves no choice") {
    const std::vector<TensorInfo> inputs{input("x", {large, small})};
    CHECK(choose_profile(inputs, call({{4, 3}}), 0) == 0);
    const std::string text = refusal(inputs, call({{9, 3}}), 1);
    CHECK(text.find("profile 1: min [1, 3], opt [4, 3], max [8, 3]") != std::string::npos);
    CHECK(text.find("profile 0") == std::string::npos);
}

TEST_CASE("a profile that does not exist is refused") {
    const std::vector<TensorInfo> inputs{input("x", {large, small})};
    CHECK(refusal(inputs, call({{4, 3}}), 2).find("Profile 2 does not exist; the engine has 2") == 0);
    CHECK(refusal(inputs, call({{4, 3}}), -1).find("Profile -1") == 0);
}

TEST_CASE("a refusal names the input, the shape and every range") {
    const std::vector<TensorInfo> inputs{input("x", {small, large}), input("mask", {small, large})};
    const std::string text = refusal(inputs, call({{4, 3}, {65, 3}}));
    CHECK(text.find("Input 'mask' has shape [65, 3]") == 0);
    CHECK(text.find("profile 0: min [1, 3], opt [4, 3], max [8, 3]") != std::string::npos);
    CHECK(text.find("profile 1: min [1, 3], opt [16, 3], max [64, 3]") != std::string::npos);
    CHECK(refusal(inputs, call({{4, 3, 1}, {4, 3}})).find("Input 'x' has shape [4, 3, 1]") == 0);
}

TEST_CASE("shapes that fit only apart are refused together") {
    const std::vector<TensorInfo> inputs{input("x", {small, apart}), input("y", {small, apart})};
    const std::string text = refusal(inputs, call({{4, 3}, {100, 3}}));
    CHECK(text.find("No single profile") == 0);
    CHECK(text.find("x [4, 3]") != std::string::npos);
    CHECK(text.find("y [100, 3]") != std::string::npos);
}

TEST_CASE("values of shape tensors count where their ranges are known") {
    TensorInfo shape = input("shape", {{{2}, {2}, {2}}, {{2}, {2}, {2}}});
    shape.values = {{{1, 1}, {2, 2}, {4, 4}}, {{5, 5}, {6, 6}, {8, 8}}};
    const std::vector<TensorInfo> inputs{shape};
    CHECK(choose_profile(inputs, {{{2}}, {{6, 7}}}, {}) == 1);
    CHECK(refusal(inputs, {{{2}}, {{4, 5}}}).find("with values [4, 5]") != std::string::npos);
}

TEST_CASE("values are read from 32 and 64 bits") {
    TensorInfo tensor;
    const std::array<std::int32_t, 2> narrow{3, -4};
    tensor.dtype = "int32";
    tensor.bits = 32;
    CHECK(shape_values(tensor, {2}, narrow.data()) == Shape{3, -4});
    const std::array<std::int64_t, 2> wide{5, std::int64_t{1} << 40};
    tensor.dtype = "int64";
    tensor.bits = 64;
    CHECK(shape_values(tensor, {2}, wide.data()) == Shape{5, std::int64_t{1} << 40});
    CHECK(shape_values(tensor, {}, wide.data()) == Shape{5});
    CHECK(shape_values(tensor, {0}, wide.data()).empty());
}

TEST_CASE("bools and floats are shape tensors, too") {
    TensorInfo tensor;
    tensor.dtype = "bool";
    tensor.bits = 8;
    const std::vector<std::uint8_t> bools{1, 0, 1}; // on the heap, where the sanitisers see what lies behind
    CHECK(shape_values(tensor, {3}, bools.data()) == Shape{1, 0, 1});
    tensor.dtype = "float32";
    tensor.bits = 32;
    const std::vector<float> floats{1.25F, 1.75F, -1.25F};
    const Shape values = shape_values(tensor, {3}, floats.data());
    CHECK(values[0] != values[1]); // the same integer, but another call
    CHECK(values[0] != values[2]);
    CHECK(values == shape_values(tensor, {3}, floats.data()));
}

TEST_CASE("an engine without inputs has one profile") {
    CHECK(choose_profile({}, {}, {}) == 0);
}

TEST_CASE("a fixed input is held to its own shape where no profile tells a range") {
    const ProfileRange range = complete_range({4, 8}, {});
    CHECK(range.min == Shape{4, 8});
    CHECK(range.opt == Shape{4, 8});
    CHECK(range.max == Shape{4, 8});
    const std::vector<TensorInfo> inputs{input("x", {range})};
    CHECK(choose_profile(inputs, call({{4, 8}}), {}) == 0);
    CHECK(refusal(inputs, call({{4, 9}})).find("Input 'x' has shape [4, 9]") == 0);
    CHECK(refusal(inputs, call({{32}})).find("Input 'x' has shape [32]") == 0);
    CHECK(complete_range({4, 8}, small).max == Shape{4, 8});
}

TEST_CASE("the range of an open dimension is the profile's, and open where none tells it") {
    CHECK(complete_range({-1, 3}, small).max == small.max);
    const std::vector<TensorInfo> inputs{input("x", {complete_range({-1, 3}, {})})};
    CHECK(choose_profile(inputs, call({{900, 3}}), {}) == 0);
    CHECK(refusal(inputs, call({{900, 4}})).find("Input 'x' has shape [900, 4]") == 0);
}
