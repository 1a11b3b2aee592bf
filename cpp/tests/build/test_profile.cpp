#include "build/profile.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace trtw;

namespace {

const std::vector<ProfileInput> given_inputs{{"ids", {-1, -1}, {"batch", "length"}, false},
                                             {"mask", {-1, -1}, {"batch", "length"}, false},
                                             {"table", {8, 4}, {"", ""}, false}};

Profile good() {
    const ProfileRange range{{1, 8}, {4, 64}, {8, 128}};
    return {{{"ids", range}, {"mask", range}}, {}};
}

std::string problem(const std::vector<Profile>& profiles, const std::vector<ProfileInput>& inputs = given_inputs) {
    try {
        validate_profiles(profiles, inputs);
    } catch (const UsageProblem& found) {
        return found.what();
    }
    return {};
}

std::string problem_after(const std::function<void(Profile&)>& change) {
    Profile profile = good();
    change(profile);
    return problem({good(), profile});
}

bool mentions(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("profiles that fit pass") {
    CHECK(problem({good()}).empty());
    CHECK(problem({good(), good()}).empty());
    CHECK(problem_after([](Profile& p) { p.shapes["table"] = {{8, 4}, {8, 4}, {8, 4}}; }).empty());
}

TEST_CASE("a profile of fixed shapes holds each input to its own") {
    const std::vector<ProfileInput> fixed{{"x", {4, 8}, {"", ""}, false}, {"scale", {}, {}, false}};
    const Profile profile = fixed_profile(fixed);
    CHECK(profile.shapes == std::map<std::string, ProfileRange>{{"x", {{4, 8}, {4, 8}, {4, 8}}}});
    CHECK(profile.values.empty());
    CHECK(problem({profile}, fixed).empty());
}

TEST_CASE("a dimension is settled where all profiles leave it one value") {
    const ProfileInput& ids = given_inputs.front();
    const auto with = [](std::int64_t min, std::int64_t max) {
        return Profile{{{"ids", {{1, min}, {1, max}, {1, max}}}}, {}};
    };
    using Dims = std::vector<std::int64_t>;
    CHECK(settled_shape(ids, {}) == Dims{-1, -1});
    CHECK(settled_shape(ids, {with(1, 64)}) == Dims{1, -1});
    CHECK(settled_shape(ids, {with(64, 64)}) == Dims{1, 64});
    CHECK(settled_shape(ids, {with(64, 64), with(64, 64)}) == Dims{1, 64});
    CHECK(settled_shape(ids, {with(1, 1), with(64, 64)}) == Dims{1, -1});
    CHECK(settled_shape(ids, {with(64, 64), with(1, 64)}) == Dims{1, -1});
    CHECK(settled_shape(given_inputs.back(), {with(64, 64)}) == Dims{8, 4});
}

TEST_CASE("a model of fixed shapes needs no profile, a dynamic one does") {
    CHECK(problem({}, {{"x", {1, 3}, {}, false}}).empty());
    CHECK(mentions(problem({}), "'ids' is dynamic (-1x-1)"));
    CHECK(mentions(problem({}, {{"size", {2}, {}, true}}), "shape tensor"));
}

TEST_CASE("the message names the profile and the input") {
    const auto text = problem_after([](Profile& p) { p.shapes.erase("mask"); });
    CHECK(mentions(text, "Profile 1"));
    CHECK(mentions(text, "'mask'"));
}

TEST_CASE("unknown inputs are told with the ones that there are") {
    const auto text = problem_after([](Profile& p) { p.shapes["id"] = {{1}, {1}, {1}}; });
    CHECK(mentions(text, "ids, mask, table"));
}

TEST_CASE("min <= opt <= max, in one rank, without negative numbers") {
    CHECK(mentions(problem_after([](Profile& p) { p.shapes["ids"].opt = {9, 64}; }), "position 0"));
    CHECK(mentions(problem_after([](Profile& p) { p.shapes["ids"].max = {8}; }), "differ in length"));
    CHECK(mentions(problem_after([](Profile& p) { p.shapes["ids"] = {{1}, {1}, {1}}; }), "1 dimensions"));
    CHECK(mentions(problem_after([](Profile& p) {
                       p.shapes["ids"].min = {-1, 8};
                       p.shapes["mask"].min = {-1, 8};
                   }),
                   "negative"));
}

TEST_CASE("fixed dimensions stay fixed") {
    CHECK(mentions(problem_after([](Profile& p) { p.shapes["table"] = {{8, 4}, {8, 4}, {9, 4}}; }), "fixed to 8"));
}

TEST_CASE("dimensions of one symbol range alike") {
    const auto text = problem_after([](Profile& p) { p.shapes["mask"].max = {8, 256}; });
    CHECK(mentions(text, "'length'"));
    CHECK(mentions(text, "'ids'"));
}

TEST_CASE("shape tensors take values, others do not") {
    const std::vector<ProfileInput> inputs{{"size", {2}, {""}, true}};
    const Profile values{{}, {{"size", {{1, 1}, {2, 2}, {4, 4}}}}};
    CHECK(problem({values}, inputs).empty());
    CHECK(mentions(problem({Profile{}}, inputs), "range of its values"));
    CHECK(mentions(problem_after([](Profile& p) { p.values["ids"] = {{1}, {1}, {1}}; }), "not a shape tensor"));
    Profile unordered = values;
    unordered.values["size"].min = {3, 1};
    CHECK_FALSE(problem({unordered}, inputs).empty());
}
