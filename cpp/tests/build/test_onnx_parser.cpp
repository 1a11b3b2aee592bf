#include "build/onnx_parser.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

using namespace trtw;

TEST_CASE("a parser's problem names the node as far as it is known") {
    CHECK(to_text({"unsupported_node", "No importer.", 3, "norm1", "GroupNorm"}) ==
          "unsupported_node at node 3 'norm1' (GroupNorm): No importer.");
    CHECK(to_text({"unsupported_node", "", 3, "", ""}) == "unsupported_node at node 3");
    CHECK(to_text({"model_deserialize_failed", "Failed.", -1, "", ""}) == "model_deserialize_failed: Failed.");
}

TEST_CASE("all problems are told at once, with the model's path last") {
    CHECK_THROWS_WITH_AS(throw_parser_problems({{"a", "", -1, "", ""}, {"b", "", -1, "", ""}}, "log", "m.onnx"),
                         doctest::Contains("a; b. Model: m.onnx"), UsageProblem);
}

TEST_CASE("without a list of problems the log speaks") {
    CHECK_THROWS_WITH_AS(throw_parser_problems({}, "broken pipe", "m"), doctest::Contains("broken pipe"), UsageProblem);
    CHECK_THROWS_WITH_AS(throw_parser_problems({}, "", "m"), doctest::Contains("no reason given"), UsageProblem);
}
