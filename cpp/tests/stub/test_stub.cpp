// Loading, building, running and refitting as the core does it, over a stub of TensorRT's libraries (stub.hpp).
#include "trt/entry_points.hpp"
#include "trt/version.hpp"
#include "trtw/bench.hpp"
#include "trtw/builder.hpp"
#include "trtw/error.hpp"
#include "trtw/inspect.hpp"
#include "trtw/library.hpp"
#include "trtw/plan.hpp"
#include "trtw/refit.hpp"
#include "trtw/runner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

using namespace trtw;

namespace {

std::string said_by(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& problem) {
        return problem.what();
    }
    return "nothing";
}

bool contains(const std::string& text, const std::string& part) {
    INFO(text);
    return text.find(part) != std::string::npos;
}

// The stub of the core's own headers, or of those of another minor version.
const char* stub_libraries() {
    const char* other = std::getenv("TRTW_STUB_LIBRARIES");
    return other != nullptr ? other : TRTW_STUBS "/lib";
}

// A file of the stub's kind of model.
class ModelFile {
public:
    explicit ModelFile(const std::string& content)
        : path_{std::filesystem::temp_directory_path() / ("trtw_stub_" + std::to_string(getpid()) + ".onnx")} {
        std::ofstream{path_} << content;
    }
    ~ModelFile() { std::filesystem::remove(path_); }
    ModelFile(const ModelFile&) = delete;
    ModelFile& operator=(const ModelFile&) = delete;
    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

ProfileRange range(std::int64_t min, std::int64_t opt, std::int64_t max) {
    return {{min}, {opt}, {max}};
}

BuildResult built(const BuildOptions& options, const std::string& model = "twice -1") {
    load_library(stub_libraries());
    return build_engine(ModelFile{model}.path(), options, nullptr);
}

BuildOptions with_profiles(const std::vector<ProfileRange>& ranges) {
    BuildOptions options;
    for (const ProfileRange& of_x : ranges) {
        options.profiles.push_back({.shapes = {{"x", of_x}}});
    }
    return options;
}

std::shared_ptr<Plan> loaded(const BuildOptions& options) {
    return Plan::load(built(options).plan, {});
}

std::shared_ptr<Plan> refittable_plan() {
    BuildOptions options = with_profiles({range(1, 4, 8)});
    options.refit = RefitKind::full;
    return loaded(options);
}

// `x` has to outlive the call.
Call call_of(const std::vector<float>& x) {
    return {.inputs = {{.data = x.data(), .shape = {static_cast<std::int64_t>(x.size())}}}};
}

std::vector<float> run(Runner& runner, const std::vector<float>& x) {
    const Runner::Finished finished = runner.run(call_of(x));
    const Output& output = finished.outputs().front();
    const auto* first = static_cast<const float*>(output.host->data());
    return {first, first + output.bytes / sizeof(float)};
}

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span{text});
}

} // namespace

TEST_CASE("a library of another major version is refused, whatever its file is called") { // before one is open
    const std::string said = said_by([] { load_library(TRTW_STUBS "/major"); });
    CHECK(contains(said, "libnvinfer is TensorRT 99.99.0, but the core was built with the headers of " +
                             version_text(TRTW_TRT_VERSION) + " and needs TensorRT " +
                             std::to_string(NV_TENSORRT_MAJOR)));
    CHECK(library_version() == 0);
}

TEST_CASE("the library that is found has the major version of the headers, and a parser") {
    const LibraryStatus status = load_library(stub_libraries());
    CHECK(status.available);
    CHECK(status.version == version_text(library_version()));
    const std::string versions = "built with the headers of " + status.headers + ", running " + status.version;
    CHECK(std::ranges::count(status.notes, versions) == (status.version == status.headers ? 0 : 1));
    CHECK_FALSE(status.parser.empty());
    CHECK(contains(said_by([] { load_library("/"); }), "already loaded from another folder"));
}

TEST_CASE("what either the headers or the library lack is refused, and nothing else") {
    const std::vector<std::tuple<int, int, std::function<void(BuildOptions&)>>> options = {
        {10, 2, [](BuildOptions& o) { o.refit = RefitKind::individual; }},
        {10, 3, [](BuildOptions& o) { o.preview_features["aliased_plugin_io"] = true; }},
        {10, 4, [](BuildOptions& o) { o.max_tactics = 4; }},
        {10, 6, [](BuildOptions& o) { o.strict_nans = true; }},
        {10, 8, [](BuildOptions& o) { o.tiling_optimization_level = TilingLevel::fast; }},
        {10, 8, [](BuildOptions& o) { o.editable_timing_cache = true; }},
        {10, 9, [](BuildOptions& o) { o.hardware_compatibility = HardwareCompatibility::same_compute_capability; }},
        {10, 12, [](BuildOptions& o) { o.distributive_independence = true; }},
    };
    load_library(stub_libraries());
    for (const auto& [major, minor, ask] : options) {
        BuildOptions asked = with_profiles({range(1, 2, 4)});
        ask(asked);
        const bool present =
            is_at_least(TRTW_TRT_VERSION, major, minor) && is_at_least(library_version(), major, minor);
        const std::string said = said_by([&] { built(asked); });
        INFO(major << '.' << minor);
        CHECK(contains(said, present ? "nothing" : version_in_words()));
    }
}

TEST_CASE("a plan tells its tensors and profiles") {
    const auto plan = loaded(with_profiles({range(1, 2, 4), range(5, 6, 8)}));
    REQUIRE(plan->inputs().size() == 1);
    const TensorInfo& input = plan->inputs().front();
    CHECK(input.name == "x");
    CHECK(input.dtype == "float32");
    CHECK(input.shape == Shape{-1});
    CHECK(plan->num_profiles() == 2);
    CHECK(input.profiles == std::vector{range(1, 2, 4), range(5, 6, 8)});
    CHECK(plan->device_memory_bytes() == 256);
}

TEST_CASE("dimensions to which the profiles leave one value become fixed, and need no profile") {
    const auto plan = loaded(with_profiles({range(4, 4, 4)}));
    CHECK(plan->inputs().front().shape == Shape{4});
    CHECK(plan->inputs().front().profiles == std::vector{range(4, 4, 4)});
}

TEST_CASE("what is no plan of this version is refused with the reason") {
    load_library(stub_libraries());
    CHECK(contains(said_by([] { Plan::load(bytes_of("stub plan 1.0\ntwice -1 1 0\n"), {}); }), "another version"));
    CHECK(contains(said_by([] { Plan::load(bytes_of("neither this nor that"), {}); }), "damaged"));
    CHECK(contains(said_by([] { Plan::load(bytes_of("PK\003\004"), {}); }), "zip"));
    CHECK(contains(said_by([] { Plan::load(bytes_of("stub"), {.device = 7}); }), "Device 7 does not exist"));
}

TEST_CASE("a call runs in the profile that allows its shape") {
    Runner runner{loaded(with_profiles({range(1, 2, 4), range(5, 6, 8)})), {}};
    CHECK(run(runner, {1, 2}) == std::vector<float>{3, 5});
    CHECK(run(runner, {0, 1, 2, 3, 4}) == std::vector<float>{1, 3, 5, 7, 9});
    CHECK(run(runner, {1, 2}) == std::vector<float>{3, 5});
    CHECK(contains(said_by([&] { run(runner, std::vector<float>(9)); }), "9"));
}

TEST_CASE("several slots share a profile, unless TensorRT lends it to one context alone") {
    const auto plan = loaded(with_profiles({range(1, 2, 4)}));
    const std::vector<float> x{1, 2};
    const std::string said = said_by([&] {
        Runner runner{plan, {.slots = 2}};
        const auto first = runner.submit(call_of(x));
        const auto second = runner.submit(call_of(x));
    });
    CHECK(contains(said, NV_TENSORRT_MAJOR < 10 ? "profile" : "nothing"));
}

TEST_CASE("a build reports its phases, and can be ended") {
    load_library(stub_libraries());
    const ModelFile model{"recurrent 4"};
    std::vector<std::string> phases;
    const BuildResult result = build_engine(model.path(), {}, [&](std::string_view phase, int, int) {
        phases.emplace_back(phase);
        return true;
    });
    CHECK(std::count(phases.begin(), phases.end(), "parse") == 2);
    CHECK(result.inputs.size() == 2);
    CHECK(result.outputs.back().name == "h_next");
    CHECK_THROWS_AS(build_engine(model.path(), {}, [](std::string_view, int, int) { return false; }), Cancelled);
}

TEST_CASE("what cannot be built is refused with the reason") {
    CHECK(contains(said_by([] { built({}, "nothing that is known"); }), "model_deserialize_failed"));
    CHECK(contains(said_by([] { build_engine("/nowhere.onnx", {}, nullptr); }), "No such model file"));
    CHECK(contains(said_by([] { built(with_profiles({range(1, 2, 4), range(1, 2, 4)}), "recurrent -1"); }), "'h'"));
}

TEST_CASE("timing caches go into a build, come out of it and are merged") {
    BuildOptions options = with_profiles({range(1, 4, 8)});
    const BuildResult first = built(options);
    REQUIRE(first.timing_cache);
    options.timing_cache = Bytes(first.timing_cache.begin(), first.timing_cache.end());
    const BuildResult second = built(options);
    CHECK(second.timing_cache.size() > first.timing_cache.size());
    const auto text = [](const SharedBytes& bytes) {
        return std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    };
    CHECK(second.merger->merge({text(first.timing_cache), text(first.timing_cache)}) == text(second.timing_cache));
    CHECK(contains(said_by([&] { static_cast<void>(second.merger->merge({"damaged"})); }), "could not be merged"));
    options.timing_cache = Bytes(3);
    const BuildResult third = built(options);
    CHECK(contains(third.warnings.front(), "the timing cache was rejected"));
    options = {};
    options.disable_timing_cache = true;
    const BuildResult fourth = built(options, "twice 4");
    CHECK_FALSE(fourth.timing_cache);
    CHECK_FALSE(fourth.merger);
}

TEST_CASE("a refit by name gives runners and later plans the new weights") {
    const auto plan = refittable_plan();
    Runner runner{plan, {}};
    CHECK(run(runner, {1}) == std::vector<float>{3});
    CHECK(refittable_weights(*plan) == std::vector<std::string>{"scale", "scale_again"});
    const float weight = 10;
    const WeightValues values{&weight, "float32", 1};
    const SharedBytes bytes = refit_from_values(*plan, {{"scale", values}, {"scale_again", values}});
    CHECK(run(runner, {1}) == std::vector<float>{12});
    Runner of_new_plan{Plan::load(bytes, {}), {}};
    CHECK(run(of_new_plan, {1}) == std::vector<float>{12});
}

TEST_CASE("a refit that does not fit is refused, and changes nothing") {
    const auto plan = refittable_plan();
    const float weight = 10;
    const WeightValues values{&weight, "float32", 1};
    const auto refit = [&](const std::map<std::string, WeightValues>& weights) {
        return said_by([&] { refit_from_values(*plan, weights); });
    };
    CHECK(contains(refit({}), "No weights"));
    CHECK(contains(refit({{"scale", values}}), "needs these weights as well: scale_again"));
    CHECK(contains(refit({{"other", values}}), "no refittable weight 'other'; it has scale, scale_again"));
    CHECK(contains(refit({{"scale", {&weight, "float32", 2}}}), "a weight is one float"));
    CHECK(contains(said_by([] { refittable_weights(*loaded(with_profiles({range(1, 4, 8)}))); }), "not refittable"));
    Runner runner{plan, {}};
    CHECK(run(runner, {1}) == std::vector<float>{3});
}

TEST_CASE("a refit from a model") {
    const auto plan = refittable_plan();
    const ModelFile model{"twice -1 20"};
    if (TRTW_TRT_PARSER_REFITTER) {
        Runner runner{Plan::load(refit_from_onnx(*plan, model.path()), {}), {}};
        CHECK(run(runner, {1}) == std::vector<float>{22});
    } else {
        CHECK(contains(said_by([&] { refit_from_onnx(*plan, model.path()); }), "cannot refit from an ONNX model"));
    }
}

TEST_CASE("an engine is described, and its layers are timed") {
    const auto plan = loaded(with_profiles({range(1, 2, 4)}));
    const EngineDescription description = inspect(*plan);
    CHECK(description.name == "twice");
    CHECK(description.layer_count == 1);
    CHECK(description.profiling_verbosity == "detailed");
    CHECK(description.layers_json == R"({"Layers": ["of the stub"]})");
    const std::vector<float> x{1, 2};
    const auto layers = profile_layers(plan, call_of(x).inputs, 3, std::nullopt);
    REQUIRE(layers.size() == 1);
    CHECK(layers.front().milliseconds == std::vector<float>{0.5F, 0.5F, 0.5F});
}

TEST_CASE("a builder is held until it is closed") {
    load_library(stub_libraries());
    BuilderHold hold{1};
    hold.close();
    hold.close();
    CHECK(contains(said_by([] { const BuilderHold other{5}; }), "Device 5 does not exist"));
}
