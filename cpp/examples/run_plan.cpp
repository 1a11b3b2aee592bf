// The core without Python: runs a plan once, on float32 values from a file or on zeros, and prints what comes out.
//   run_plan MODEL.plan [INPUT.bin]
#include <trtw/error.hpp>
#include <trtw/library.hpp>
#include <trtw/plan.hpp>
#include <trtw/runner.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

std::vector<char> read(const std::string& path) {
    std::ifstream file{path, std::ios::binary};
    if (!file) {
        throw std::runtime_error{"The file cannot be read: " + path};
    }
    return {std::istreambuf_iterator<char>{file}, {}};
}

void run(const std::string& path, const std::string& values) {
    trtw::load_library(); // $TENSORRT_HOME/lib, else the loader's path
    const std::vector<char> bytes = read(path);
    const auto plan = trtw::Plan::load(std::as_bytes(std::span{bytes}), {}); // only plans that you trust: they are code
    trtw::Runner runner{plan, {}};

    trtw::Call call;
    std::vector<std::vector<char>> arrays; // read before `run` returns
    for (const trtw::TensorInfo& input : plan->inputs()) {
        const trtw::Shape& shape = input.profiles.front().opt;
        arrays.push_back(values.empty() ? std::vector<char>(trtw::byte_size(input, shape)) : read(values));
        if (arrays.back().size() != trtw::byte_size(input, shape)) {
            throw std::runtime_error{"The file has other than the bytes of " + input.name + ": " + values};
        }
        call.inputs.push_back({.data = arrays.back().data(), .shape = shape});
    }
    const trtw::Runner::Finished done = runner.run(call); // the outputs live as long as it
    for (const trtw::Output& output : done.outputs()) {
        std::printf("%s %s %s:", output.tensor->name.c_str(), output.tensor->dtype.c_str(),
                    trtw::bracketed(output.shape).c_str());
        if (output.tensor->dtype == "float32") {
            for (const float value : output.values<float>() | std::views::take(4)) {
                std::printf(" %g", static_cast<double>(value));
            }
        }
        std::printf("\n");
    }
}

} // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv, argv + argc);
    if (words.size() < 2) {
        std::fprintf(stderr, "usage: run_plan MODEL.plan [INPUT.bin]\n");
        return 2;
    }
    try {
        run(words[1], words.size() > 2 ? words[2] : "");
        return 0;
    } catch (const trtw::Error& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return static_cast<int>(problem.code());
    } catch (const std::exception& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 2;
    }
}
