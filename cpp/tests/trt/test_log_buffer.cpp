#include "trt/log_buffer.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

using namespace trtw;

TEST_CASE("a buffer keeps the newest lines up to its capacity") {
    LogBuffer buffer{3};
    for (int i = 0; i < 5; ++i) {
        buffer.add(Severity::error, "line " + std::to_string(i));
    }
    const auto lines = buffer.drain();
    REQUIRE(lines.size() == 3);
    CHECK(lines.front().text == "line 2");
    CHECK(lines.back().sequence == 4);
}

TEST_CASE("lines below the threshold are dropped") {
    LogBuffer buffer;
    buffer.set_threshold(Severity::warning);
    buffer.add(Severity::info, "chatter");
    buffer.add(Severity::warning, "careful");
    const auto lines = buffer.drain();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].text == "careful");
}

TEST_CASE("draining returns each line once and leaves captures alone") {
    LogBuffer buffer;
    const LogCapture capture{buffer};
    buffer.add(Severity::error, "first");
    CHECK(buffer.drain().size() == 1);
    CHECK(buffer.drain().empty());
    CHECK(capture.errors() == "first");
}

TEST_CASE("a capture quotes errors since it began, without repetitions") {
    LogBuffer buffer;
    buffer.add(Severity::error, "older");
    const LogCapture capture{buffer};
    buffer.add(Severity::error, "no kernel");
    buffer.add(Severity::warning, "slow");
    buffer.add(Severity::warning, "slow");
    buffer.add(Severity::internal_error, "assertion");
    buffer.add(Severity::error, "no kernel");
    CHECK(capture.errors() == "no kernel; assertion");
    CHECK(capture.warnings() == std::vector<std::string>{"slow"});
    CHECK(capture.count("slow") == 2);
    CHECK(capture.count("slow", Severity::error) == 0);
}

TEST_CASE("a failed build is not blamed on a timing cache that could not be read") {
    const std::string of_myelin = "1: [myelinCache.h::deserializeFromBuffer::52] Error Code 1: Myelin (Myelin error "
                                  "from unknown graph)";
    const std::string not_used = "4: The timing cache will not be used!";
    const std::string cause = "10: Could not find any implementation for node {ForeignNode[/embeddings/Add]}.";
    LogBuffer buffer;
    const LogCapture capture{buffer};
    buffer.add(Severity::error, of_myelin);
    buffer.add(Severity::error, not_used);
    CHECK(capture.errors() == of_myelin + "; " + not_used);
    buffer.add(Severity::error, cause);
    buffer.add(Severity::error, of_myelin);
    CHECK(capture.errors() == cause);
}

TEST_CASE("a capture of one thread leaves out what others said") {
    LogBuffer buffer;
    buffer.add(Severity::error, "of an earlier call");
    const LogCapture own{buffer, LogCapture::Of::this_thread};
    const LogCapture all{buffer};
    std::jthread{[&] { buffer.add(Severity::error, "of another thread"); }}.join();
    CHECK(own.errors().empty());
    buffer.add(Severity::error, "of this call");
    buffer.add(Severity::warning, "a warning");
    CHECK(own.errors() == "of this call");
    CHECK(own.warnings() == std::vector<std::string>{"a warning"});
    CHECK(own.count("of") == 1);
    CHECK(all.errors() == "of another thread; of this call");
}

TEST_CASE("many threads lose nothing") {
    LogBuffer buffer{100000};
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&buffer] {
                for (int i = 0; i < 1000; ++i) {
                    buffer.add(Severity::info, "x");
                }
            });
        }
    }
    CHECK(buffer.next_sequence() == 4000);
    CHECK(buffer.drain().size() == 4000);
}

TEST_CASE("severity names go both ways") {
    for (const char* name : {"internal_error", "error", "warning", "info", "verbose"}) {
        CHECK(severity_name(parse_severity(name)) == name);
    }
    CHECK_THROWS_AS(parse_severity("loud"), trtw::UsageProblem);
}

TEST_CASE("words of a failed device are told from words about the model") {
    CHECK(speaks_of_device("Error Code 2: OutOfMemory (no further information)"));
    CHECK(speaks_of_device("Error Code 1: Cuda Runtime (out of memory)"));
    CHECK_FALSE(speaks_of_device("Error Code 10: Could not find any implementation for node conv1."));
}
