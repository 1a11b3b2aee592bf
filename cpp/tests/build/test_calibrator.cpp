#include "build/calibrator.hpp"

#if TRTW_TRT_WEAK_TYPING

#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstring>

using namespace trtw;

namespace {

const std::vector<TensorDescription> given_inputs{{"x", "float32", {-1, 2}, true, false}};
const std::array<float, 8> given_values{};

CalibrationTensor tensor(std::vector<std::int64_t> shape, std::string dtype = "float32") {
    return {given_values.data(), sizeof given_values, std::move(dtype), std::move(shape)};
}

Calibration once(CalibrationBatch batch) {
    Calibration calibration;
    calibration.open = [batch] {
        return [batch, left = 1](CalibrationBatch& out) mutable {
            out = batch;
            return left-- > 0;
        };
    };
    return calibration;
}

std::string problem(CalibrationBatch batch) {
    Progress progress{{}};
    try {
        const CalibrationFeed feed{once(std::move(batch)), given_inputs, progress};
    } catch (const UsageProblem& found) {
        return found.what();
    }
    return {};
}

} // namespace

TEST_CASE("the first batch gives the shapes and the batch size") {
    Progress progress{{}};
    const CalibrationFeed feed{once({{"x", tensor({4, 2})}}), given_inputs, progress};
    CHECK(feed.batch_size() == 4);
    CHECK(feed.shapes().at("x") == std::vector<std::int64_t>{4, 2});
    CHECK(feed.batches_read() == 0);
}

TEST_CASE("a batch that does not fit the model is refused by its input's name") {
    CHECK(problem({{"x", tensor({4, 2})}}).empty());
    CHECK(problem({{"y", tensor({4, 2})}}).find("'x': is missing") != std::string::npos);
    CHECK(problem({{"x", tensor({4, 2}, "float16")}}).find("takes float32") != std::string::npos);
    CHECK(problem({{"x", tensor({2, 4})}}).find("takes -1x2") != std::string::npos);
    CHECK(problem({{"x", tensor({4, 2})}, {"z", tensor({4, 2})}}).find("'z'") != std::string::npos);
}

TEST_CASE("no batches are a usage problem, not an engine without ranges") {
    Calibration calibration;
    calibration.open = [] { return [](CalibrationBatch&) { return false; }; };
    Progress progress{{}};
    CHECK_THROWS_AS((CalibrationFeed{calibration, given_inputs, progress}), UsageProblem);
}

TEST_CASE("a cache makes batches needless and is handed to TensorRT as it is") {
    Calibration calibration;
    calibration.cache = "TRT-8600-EntropyCalibration2";
    Progress progress{{}};
    CalibrationFeed feed{calibration, given_inputs, progress};
    CHECK(feed.shapes().empty());
    std::size_t length = 0;
    const void* bytes = feed.cached(length);
    REQUIRE(bytes != nullptr);
    CHECK(std::string{static_cast<const char*>(bytes), length} == *calibration.cache);
    CHECK_FALSE(feed.next(nullptr, nullptr, 0));
    calibration.cache = "";
    CHECK_THROWS_AS((CalibrationFeed{calibration, given_inputs, progress}), UsageProblem);
}

TEST_CASE("TensorRT's newest cache is kept for the caller, and not used in the same build") {
    Progress progress{{}};
    CalibrationFeed feed{once({{"x", tensor({4, 2})}}), given_inputs, progress};
    feed.keep("scales", 6);
    CHECK(feed.cache() == "scales");
    std::size_t length = 1;
    CHECK(feed.cached(length) == nullptr);
    CHECK(length == 0);
}

#endif
