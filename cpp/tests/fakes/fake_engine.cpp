#include "fake_engine.hpp"

#include "device/check.hpp"
#include "fake_cuda.hpp"
#include "run/execution.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/error.hpp"

#include <cstring>

// TensorRT's own type, completed here: what a context knows.
namespace nvinfer1 {
class IExecutionContext {
public:
    std::vector<fake::Shape> shapes;
    std::vector<fake::Shape> output_shapes;
    std::vector<void*> inputs;
    std::vector<void*> outputs;
    trtw::OutputAllocator* allocator = nullptr; ///< of the open output
};
} // namespace nvinfer1

namespace fake {

using trtw::Call;
using trtw::Input;
using trtw::Output;
using trtw::Runner;
using trtw::Source;

Engine::Engine(const std::vector<TensorInfo>& tensors, Compute compute_)
    : Plan{static_cast<int>(tensors.front().profiles.size())}, compute{std::move(compute_)} {
    for (const TensorInfo& tensor : tensors) {
        add_tensor(tensor);
    }
}

namespace {

std::shared_ptr<Engine> engine(const Model& model) {
    return std::make_shared<Engine>(model.tensors, model.compute);
}

} // namespace

std::shared_ptr<Engine> recurrent(std::int64_t elements) {
    return engine(model("recurrent", elements));
}

std::shared_ptr<Engine> twice(std::int64_t elements) {
    return engine(model("twice", elements));
}

Input host(const Values& values) {
    Input input;
    input.data = values.data();
    input.shape = {static_cast<std::int64_t>(values.size())};
    return input;
}

Input state() {
    Input input;
    input.source = Source::state;
    return input;
}

Call call_of(std::vector<Input> inputs) {
    Call call;
    call.inputs = std::move(inputs);
    return call;
}

Values values(const Output& output) {
    const auto* first = static_cast<const float*>(output.host->data());
    return {first, first + output.bytes / sizeof(float)};
}

Values values_on_device(const Output& output) {
    const auto* first = static_cast<const float*>(output.device->data());
    return {first, first + output.bytes / sizeof(float)};
}

Values values_on_device(const trtw::Enqueued& call, std::size_t output) {
    call.done->synchronize();
    return values_on_device(call.outputs[output]);
}

Values run(Runner& runner, std::vector<Input> inputs, std::size_t output) {
    return values(runner.run(call_of(std::move(inputs))).outputs()[output]);
}

} // namespace fake

namespace trtw {

class AllocatorAdapter {};
class ProfilerAdapter {};

std::unique_ptr<Execution> Execution::create(std::shared_ptr<const Plan> plan, int profile, void* /*scratch*/,
                                             cudaStream_t /*stream*/) {
    std::unique_ptr<Execution> made{new Execution};
    made->context_ = std::make_shared<nvinfer1::IExecutionContext>();
    made->context_->inputs.resize(plan->inputs().size());
    made->context_->outputs.resize(plan->outputs().size());
    made->plan_ = std::move(plan);
    made->profile_ = profile;
    return made;
}

Execution::~Execution() = default;

void Execution::set_shapes(std::span<const Shape> shapes) {
    context_->shapes.assign(shapes.begin(), shapes.end());
    if (const auto& infer = static_cast<const fake::Engine&>(*plan_).infer) {
        context_->output_shapes = infer(context_->shapes);
        return;
    }
    for (const Shape& shape : shapes) {
        if (shape != shapes.front()) {
            throw UsageProblem("TensorRT cannot compute the shapes of this call: lengths differ");
        }
    }
    context_->output_shapes.assign(plan_->outputs().size(), context_->shapes.front());
}

std::optional<Shape> Execution::output_shape(std::size_t output) const {
    if (static_cast<const fake::Engine&>(*plan_).open_output == output) {
        return std::nullopt;
    }
    return context_->output_shapes[output];
}

void Execution::bind_input(std::size_t input, void* address) {
    if (address == nullptr) {
        throw DeviceFailure("an input is bound to no memory");
    }
    context_->inputs[input] = address;
}

void Execution::bind_output(std::size_t output, void* address) {
    if (address == nullptr) {
        throw DeviceFailure("an output is bound to no memory");
    }
    context_->outputs[output] = address;
}

void Execution::bind_allocator(std::size_t /*output*/, OutputAllocator& allocator) {
    context_->allocator = &allocator;
}
void Execution::report_layers(LayerReport /*report*/) {}

void Execution::enqueue(cudaStream_t stream) {
    const auto& engine = static_cast<const fake::Engine&>(*plan_);
    if (!engine.failure.empty()) {
        throw DeviceFailure(engine.failure);
    }
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        const auto aliased = plan_->aliased_input(o);
        if (aliased && context_->outputs[o] != context_->inputs[*aliased]) {
            throw DeviceFailure("output '" + plan_->outputs()[o].name + "' is not bound to its input's memory");
        }
    }
    if (engine.open_output) {
        const Shape& shape = context_->output_shapes[*engine.open_output];
        context_->outputs[*engine.open_output] =
            context_->allocator->grow(byte_size(plan_->outputs()[*engine.open_output], shape));
        if (context_->outputs[*engine.open_output] == nullptr) {
            throw DeviceFailure("the output found no memory");
        }
        context_->allocator->note_shape(shape);
    }
    // Addresses, and weights that a kernel takes by value, are what they were when it was enqueued.
    const auto context = *context_;
    const float weight = engine.weight;
    fake::enqueue(stream, [context, weight, tensors = plan_->inputs(), compute = engine.compute] {
        std::vector<fake::Values> inputs;
        for (std::size_t i = 0; i < context.inputs.size(); ++i) {
            const auto* first = static_cast<const float*>(context.inputs[i]);
            inputs.emplace_back(first, first + bound_bytes(tensors[i], context.shapes[i]) / sizeof(float));
        }
        const std::vector<fake::Values> outputs = compute(inputs, weight);
        for (std::size_t o = 0; o < outputs.size(); ++o) {
            std::memcpy(context.outputs[o], outputs[o].data(), outputs[o].size() * sizeof(float));
        }
    });
}

} // namespace trtw
