// The core without Python: builds an engine from an ONNX model of fixed shapes and runs it once on zeros.
//   build_and_run MODEL.onnx [PLAN]
#include "trtw/builder.hpp"
#include "trtw/error.hpp"
#include "trtw/library.hpp"
#include "trtw/plan.hpp"
#include "trtw/runner.hpp"

#include <cstdio>
#include <exception>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace {

bool show_progress(std::string_view phase, int step, int total) {
    std::fprintf(stderr, "\r%.*s %d/%d   ", static_cast<int>(phase.size()), phase.data(), step, total);
    return true; // false would end the build
}

trtw::BuildResult build(const std::string& model) {
    trtw::BuildOptions options;
    options.fp16 = true;
    trtw::BuildResult result = trtw::build_engine(model, options, show_progress);
    std::fprintf(stderr, "\nbuilt in %.1f s, %zu bytes\n", result.build_s, result.plan.size());
    for (const std::string& warning : result.warnings) {
        std::fprintf(stderr, "warning: %s\n", warning.c_str());
    }
    return result;
}

void run_once(const std::shared_ptr<trtw::Plan>& plan) {
    trtw::Runner runner{plan, {}};
    std::vector<std::vector<std::byte>> zeros; // read before `run` returns
    trtw::Call call;
    for (const trtw::TensorInfo& input : plan->inputs()) {
        const trtw::Shape& shape = input.profiles.front().opt;
        zeros.emplace_back(trtw::byte_size(input, shape));
        call.inputs.push_back({.data = zeros.back().data(), .shape = shape});
    }
    // The outputs lie in the runner's memory as long as `done` lives.
    const trtw::Runner::Finished done = runner.run(call);
    for (const trtw::Output& output : done.outputs()) {
        std::printf("%s %s %s, %zu bytes\n", output.tensor->name.c_str(), output.tensor->dtype.c_str(),
                    trtw::bracketed(output.shape).c_str(), output.bytes);
    }
    std::printf("compute %.3f ms, end to end %.3f ms\n", static_cast<double>(done.timing().compute_ms),
                static_cast<double>(done.timing().end_to_end_ms));
}

} // namespace

int main(int argc, char** argv) {
    const std::span<char*> arguments{argv, static_cast<std::size_t>(argc)};
    if (arguments.size() < 2) {
        std::fprintf(stderr, "usage: build_and_run MODEL.onnx [PLAN]\n");
        return 2;
    }
    try {
        trtw::load_library(); // $TENSORRT_HOME/lib, else the loader's path
        const trtw::BuildResult built = build(arguments[1]);
        if (arguments.size() > 2) {
            std::ofstream{arguments[2], std::ios::binary}.write(reinterpret_cast<const char*>(built.plan.data()),
                                                                static_cast<std::streamsize>(built.plan.size()));
        }
        run_once(trtw::Plan::load(built.plan, {}));
    } catch (const trtw::Error& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return static_cast<int>(problem.code());
    } catch (const std::exception& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 2;
    }
    return 0;
}
