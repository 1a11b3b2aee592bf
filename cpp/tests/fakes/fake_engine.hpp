// A double of a TensorRT engine: a function of float32 arrays. What is behind Execution is TensorRT's part; the double
// has it in fake_engine.cpp instead of execution.cpp.
#pragma once

#include "fake_model.hpp"
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

using trtw::Shape;

class Engine : public trtw::Plan {
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

/// Engines of the models of these names.
std::shared_ptr<Engine> recurrent(std::int64_t elements = 4);
std::shared_ptr<Engine> twice(std::int64_t elements = -1);

/// An array in host memory as an input; it has to outlive the call.
trtw::Input host(const Values& values);
trtw::Input state();
trtw::Call call_of(std::vector<trtw::Input> inputs);

Values values(const trtw::Output& output);
Values values_on_device(const trtw::Output& output);
/// Of a call that is waited for.
Values values_on_device(const trtw::Enqueued& call, std::size_t output = 0);
/// The values of one output of a call that is run.
Values run(trtw::Runner& runner, std::vector<trtw::Input> inputs, std::size_t output = 0);

} // namespace fake
