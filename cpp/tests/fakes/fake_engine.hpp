// A double of a TensorRT engine: a function of float32 arrays. What is behind Execution is TensorRT's part; the double
// has it in fake_engine.cpp instead of execution.cpp.
#pragma once

#include "trtw/call.hpp"
#include "trtw/plan.hpp"
#include "trtw/runner.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fake {

using Values = std::vector<float>;
using trtw::engine::Shape;
using trtw::engine::TensorInfo;

/// Inputs to outputs, in the engine's order; `weight` is what a refit changes.
using Compute = std::function<std::vector<Values>(const std::vector<Values>& inputs, float weight)>;

class Engine : public trtw::engine::Plan {
public:
    Engine(const std::vector<TensorInfo>& tensors, Compute compute);

    Compute compute;
    /// Shapes of the outputs from those of the inputs; without, all have the first input's. May throw UsageProblem.
    std::function<std::vector<Shape>(const std::vector<Shape>& inputs)> infer;
    std::atomic<float> weight = 1;
    /// The shape of this output, by its index, is known only once it runs.
    std::optional<std::size_t> open_output;
    using Plan::streams_weights_;
    /// Thrown by the next launches, where it is not empty.
    std::string failure;
};

/// A float32 vector of up to 8 elements (-1), or of a fixed number.
TensorInfo input(const std::string& name, std::int64_t elements);
TensorInfo output(const std::string& name, std::int64_t elements, const std::string& aliased_input = "");

/// y = x + h + weight and h_next = h + x, all of one length.
std::shared_ptr<Engine> recurrent(std::int64_t elements = 4);
/// y = 2 x + weight.
std::shared_ptr<Engine> twice(std::int64_t elements = -1);

/// An array in host memory as an input; it has to outlive the call.
trtw::engine::Input host(const Values& values);
trtw::engine::Input state();
trtw::engine::Call call_of(std::vector<trtw::engine::Input> inputs);

Values values(const trtw::engine::Output& output);
Values values_on_device(const trtw::engine::Output& output);
/// The values of one output of a call that is run.
Values run(trtw::engine::Runner& runner, std::vector<trtw::engine::Input> inputs, std::size_t output = 0);

} // namespace fake
