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

namespace te = trtw::engine;

namespace {

bool show_progress(std::string_view phase, int step, int total) {
    std::fprintf(stderr, "\r%.*s %d/%d   ", static_cast<int>(phase.size()), phase.data(), step, total);
    return true; // false would end the build
}

te::BuildResult build(const std::string& model) {
    te::BuildOptions options;
    options.fp16 = true;
    te::BuildResult result = te::build_engine(model, options, show_progress);
    std::fprintf(stderr, "\nbuilt in %.1f s, %zu bytes\n", result.build_s, result.plan->size());
    for (const std::string& warning : result.warnings) {
        std::fprintf(stderr, "warning: %s\n", warning.c_str());
    }
    return result;
}

void run_once(const std::shared_ptr<te::Plan>& plan) {
    te::Runner runner{plan, {}};
    std::vector<std::vector<std::byte>> zeros; // read before `run` returns
    te::Call call;
    for (const te::TensorInfo& input : plan->inputs()) {
        te::Input value;
        value.shape = input.profiles.front().opt;
        zeros.emplace_back(te::byte_size(input, value.shape));
        value.data = zeros.back().data();
        call.inputs.push_back(value);
    }
    // The outputs lie in the runner's memory as long as `done` lives.
    const te::Runner::Finished done = runner.run(call);
    for (const te::Output& output : done.outputs()) {
        std::printf("%s %s %s, %zu bytes\n", output.tensor->name.c_str(), output.tensor->dtype.c_str(),
                    te::bracketed(output.shape).c_str(), output.bytes);
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
        te::load_library(); // $TENSORRT_HOME/lib, else the loader's path
        const te::BuildResult built = build(arguments[1]);
        const std::span bytes{static_cast<const std::byte*>(built.plan->data()), built.plan->size()};
        if (arguments.size() > 2) {
            std::ofstream{arguments[2], std::ios::binary}.write(static_cast<const char*>(built.plan->data()),
                                                                static_cast<std::streamsize>(built.plan->size()));
        }
        run_once(te::Plan::load(bytes, {}));
    } catch (const trtw::ComponentMissing& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 3;
    } catch (const trtw::DeviceFailure& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 4;
    } catch (const std::exception& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 2;
    }
    return 0;
}
