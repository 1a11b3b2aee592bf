#include "run/stream_table.hpp"

#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <set>
#include <vector>

using trtw::StreamTable;
using trtw::UsageProblem;
using Rows = std::vector<std::int32_t>;
using Streams = std::vector<std::int64_t>;

TEST_CASE("every stream has a row of its own") {
    StreamTable table{3};
    const Streams open{table.open(), table.open(), table.open()};
    const Rows rows = table.rows(open);
    CHECK(std::set<std::int32_t>(rows.begin(), rows.end()) == std::set<std::int32_t>{0, 1, 2});
    CHECK(table.size() == 3);
    CHECK_THROWS_WITH_AS(table.open(), doctest::Contains("holds 3 streams"), UsageProblem);
    table.close(open[1]);
    const std::int64_t next = table.open();
    CHECK(next > open[2]);
    CHECK(table.row(next) == rows[1]);
}

TEST_CASE("streams that are not open, or named twice, are refused") {
    StreamTable table{2};
    const std::int64_t stream = table.open();
    table.close(stream);
    const std::int64_t other = table.open();
    CHECK_THROWS_WITH_AS(table.row(stream), doctest::Contains("is closed"), UsageProblem);
    CHECK_THROWS_WITH_AS(table.close(stream), doctest::Contains("is closed"), UsageProblem);
    CHECK_THROWS_WITH_AS(table.row(99), doctest::Contains("never opened"), UsageProblem);
    CHECK_THROWS_WITH_AS(table.row(0), doctest::Contains("never opened"), UsageProblem);
    const Streams twice{other, other};
    CHECK_THROWS_WITH_AS(table.rows(twice), doctest::Contains("named twice"), UsageProblem);
    CHECK_THROWS_AS(table.rows({}), UsageProblem);
    table.close_all();
    CHECK(table.size() == 0);
    CHECK_THROWS_AS(table.row(other), UsageProblem);
    CHECK(table.open() == 3);
}
