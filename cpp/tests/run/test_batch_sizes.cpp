#include "run/batch_sizes.hpp"

#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <set>
#include <vector>

using trtw::BatchPart;
using trtw::BatchSizes;
using trtw::ProfileRange;
using trtw::split;
using trtw::TensorInfo;
using trtw::UsageProblem;
using Sizes = std::set<std::size_t>;

namespace {

TensorInfo input(const std::string& name, std::vector<ProfileRange> profiles) {
    TensorInfo tensor;
    tensor.name = name;
    tensor.profiles = std::move(profiles);
    return tensor;
}

// The first chunk alone, later ones in batches of 2 to 6: x [B, T], h [2, B].
const std::vector<TensorInfo> inputs{
    input("x", {{{1, 9}, {1, 9}, {1, 9}}, {{2, 5}, {4, 5}, {6, 7}}}),
    input("h", {{{2, 1}, {2, 1}, {2, 4}}, {{2, 1}, {2, 4}, {2, 8}}}),
};
const std::vector<std::optional<std::size_t>> axes{0, 1};

} // namespace

TEST_CASE("each profile clips the sizes to what it allows") {
    const std::vector<int> wanted{1, 2, 4, 8};
    const BatchSizes sizes{wanted, inputs, axes};
    CHECK(sizes.all() == Sizes{1, 2, 4, 6});
    CHECK(sizes.allowed({{3, 9}, {2, 3}}) == Sizes{1});
    CHECK(sizes.allowed({{3, 6}, {2, 3}}) == Sizes{2, 4, 6});
    const std::vector<int> large{100, 1};
    CHECK(BatchSizes{large, inputs, axes}.all() == Sizes{1, 2, 6});
}

TEST_CASE("shapes that no profile allows are told with the input") {
    const std::vector<int> wanted{1};
    const BatchSizes sizes{wanted, inputs, axes};
    CHECK_THROWS_WITH_AS(sizes.allowed({{3, 8}, {2, 3}}), doctest::Contains("'x' has shape [1, 8]"), UsageProblem);
    CHECK_THROWS_WITH_AS(sizes.allowed({{3, 9}, {1, 3}}), doctest::Contains("'h' has shape [1, 1]"), UsageProblem);
    CHECK_THROWS_AS(sizes.allowed({{3, 9}, {2, 3, 1}}), UsageProblem);
}

TEST_CASE("sizes and axes that make no sense are refused") {
    const std::vector<int> none;
    const std::vector<int> zero{0};
    const std::vector<int> huge{1 << 20};
    CHECK_THROWS_AS(BatchSizes(none, inputs, axes), UsageProblem);
    CHECK_THROWS_WITH_AS(BatchSizes(zero, inputs, axes), doctest::Contains("got 0"), UsageProblem);
    CHECK_THROWS_AS(BatchSizes(huge, inputs, axes), UsageProblem);
    const std::vector<int> one{1};
    CHECK_THROWS_WITH_AS(BatchSizes(one, inputs, {1, 1}), doctest::Contains("x 9 to 9, h 1 to 4"), UsageProblem);
}

TEST_CASE("streams are split into the largest batches, then the smallest that takes the rest") {
    const auto parts = [](std::size_t streams) {
        std::vector<std::vector<std::size_t>> found;
        for (const BatchPart& part : split(streams, {2, 4, 8})) {
            found.push_back({part.range.first, part.range.count, part.rows});
        }
        return found;
    };
    using Parts = std::vector<std::vector<std::size_t>>;
    CHECK(parts(1) == Parts{{0, 1, 2}});
    CHECK(parts(3) == Parts{{0, 3, 4}});
    CHECK(parts(8) == Parts{{0, 8, 8}});
    CHECK(parts(17) == Parts{{0, 8, 8}, {8, 8, 8}, {16, 1, 2}});
}
