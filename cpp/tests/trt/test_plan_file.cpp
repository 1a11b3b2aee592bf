#include "trt/plan_file.hpp"

#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using trtw::PlanBytes;
using trtw::read_plan;

namespace {

PlanBytes read(const std::string& text) {
    return read_plan(std::as_bytes(std::span{text}));
}

std::string refusal(const std::string& text) {
    try {
        static_cast<void>(read(text));
    } catch (const trtw::UsageProblem& problem) {
        return problem.what();
    }
    return {};
}

std::string with_header(std::size_t length, const std::string& rest) {
    std::string text;
    for (int byte = 0; byte < 4; ++byte) {
        text += static_cast<char>(length >> (8 * byte) & 0xFFU);
    }
    return text + rest;
}

} // namespace

TEST_CASE("plain bytes pass as they are") {
    const std::string plan(200, 'p');
    CHECK(read(plan).plan.size() == 200);
    CHECK(read(plan).metadata.empty());
}

TEST_CASE("a metadata header is taken off") {
    const std::string json = R"({"stride": 32})";
    const std::string file = with_header(json.size(), json + "plan-bytes");
    const PlanBytes found = read(file);
    CHECK(found.metadata == json);
    CHECK(found.plan.size() == 10);
    CHECK(std::to_integer<char>(found.plan.front()) == 'p');
}

TEST_CASE("a header may have any length, also one that looks like another file's first bytes") {
    for (std::size_t length = 2; length <= 5000; ++length) {
        const std::string json = "{" + std::string(length - 2, ' ') + "}";
        const std::string file = with_header(length, json + "plan-bytes");
        CAPTURE(length);
        CHECK(refusal(file).empty());
        CHECK(read(file).metadata.size() == length);
    }
}

TEST_CASE("a damaged header is refused") {
    CHECK(refusal(with_header(500, "{\"a\": 1}plan")).find("damaged or truncated") != std::string::npos);
    CHECK(refusal(with_header(5, "{\"a\": 1}plan")).find("damaged or truncated") != std::string::npos);
    CHECK(refusal(with_header(8, "{\"a\": 1}")).find("damaged or truncated") != std::string::npos);
}

TEST_CASE("other kinds of files are named") {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "empty"},
        {"version https://git-lfs.github.com/spec/v1", "Git LFS"},
        {std::string{"PK\x03\x04", 4} + "zip", "zip archive"},
        {std::string{"\x80\x02", 2} + "}q", "pickle"},
        {"<!DOCTYPE html><html>", "web page"},
        {"<HTML>", "web page"},
        {std::string{"\x40\x00\x00\x00\x00\x00\x00\x00{\"w\"", 12}, "safetensors"},
        {std::string{"\x08\x08\x12\x04spox", 8}, "ONNX model"},
    };
    for (const auto& [bytes, words] : cases) {
        CAPTURE(words);
        CHECK(refusal(bytes).find(words) != std::string::npos);
    }
}
