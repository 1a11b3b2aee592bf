// What the parts of the stub of TensorRT's libraries share. It stands in for libnvinfer and libnvonnxparser, so that
// what the core asks of TensorRT can be tested without it and without a GPU: an engine is one of the doubles
// (fakes/fake_model.hpp), computed on the double of CUDA. Its files are text: an "ONNX model" is "twice -1" or
// "recurrent 4", with the weight behind it where that is not 1; a plan is one with the version before it and its
// profiles behind.
#pragma once

#include "defaults.hpp"
#include "fake_model.hpp"
#include "trt/version.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#define STUB_API extern "C" __attribute__((visibility("default")))

namespace stub {

using namespace nvinfer1;
using namespace nvinfer1::apiv;
using Range = std::array<std::int64_t, 3>; // OptProfileSelector's order
using Profile = std::map<std::string, Range>;

inline ILogger* logger = nullptr;

/// Logs an error and returns false.
bool refuse(const std::string& reason);

/// One dimension.
Dims dims_of(std::int64_t elements);

/// What a plan or a model holds.
struct Content {
    std::string name;
    std::int64_t elements = -1;
    float weight = 1;
    bool refittable = false;
    std::vector<Profile> profiles;

    [[nodiscard]] fake::Model model() const { return fake::model(name, elements); }
};

std::string to_text(const Content& content);
std::optional<Content> read_plan(const std::string& plan);
std::optional<Content> read_model(const char* path);

class Memory final : public IHostMemory, DefaultVHostMemory {
public:
    explicit Memory(std::string text) : text_{std::move(text)} { mImpl = this; }
    void* data() const noexcept override { return const_cast<char*>(text_.data()); }
    std::size_t size() const noexcept override { return text_.size(); }

private:
    std::string text_;
};

/// Never looked at: the tests load no plugins.
IPluginRegistry& no_registry();

} // namespace stub
