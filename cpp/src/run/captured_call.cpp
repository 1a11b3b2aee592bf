#include "run/captured_call.hpp"

#include "device/check.hpp"
#include "run/channels_last.hpp"
#include "run/profile_choice.hpp"
#include "trtw/detail/stream.hpp"

#include <utility>

namespace trtw {

namespace {

// Lets this thread allocate memory and wait while another one's stream is being captured.
class RelaxedCapture {
public:
    RelaxedCapture() { TRTW_CUDA(cudaThreadExchangeStreamCaptureMode(&mode_)); }
    ~RelaxedCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

} // namespace

CapturedCall::CapturedCall(std::shared_ptr<const Plan> plan, const Call& call, std::optional<int> profile,
                           cudaStream_t stream)
    : plan_{std::move(plan)}, copies_(plan_->inputs().size()), outputs_(plan_->outputs().size()) {
    check(call);
    const RelaxedCapture relaxed;
    const Stream own;
    make_inputs(call, own.get());
    make_context(call, profile, own.get());
    make_outputs(call);
    // TensorRT captures what it has run before; on zeros, as the arrays may have no values yet that an engine can take.
    execution_->enqueue(own.get());
    own.synchronize();
    for (std::size_t i = 0; i < copies_.size(); ++i) {
        const Input& input = call.inputs[i];
        if (const TensorInfo& tensor = plan_->inputs()[i]; !tensor.is_linear) {
            pack_on_device(tensor, input.shape, input.data, copies_[i]->data(), stream);
        } else if (is_aligned(input.data)) {
            execution_->bind_input(i, const_cast<void*>(input.data)); // TensorRT only reads inputs
            copies_[i].reset();
        } else {
            TRTW_CUDA(cudaMemcpyAsync(copies_[i]->data(), input.data, byte_size(tensor, input.shape),
                                      cudaMemcpyDeviceToDevice, stream));
        }
    }
    make_outputs(call);
    execution_->enqueue(stream);
    end_with(stream);
}

// Graphs hold such an object, and what is instantiated of them does. It must not call CUDA where it ends, so whoever
// has the memory is told.
void CapturedCall::end_with(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    cudaGraph_t graph = nullptr;
    TRTW_CUDA(cudaStreamGetCaptureInfo(stream, &status, &id, &graph));
    using Flag = std::shared_ptr<std::atomic<bool>>;
    auto flag = std::make_unique<Flag>(over_);
    cudaUserObject_t object = nullptr;
    const auto end = [](void* held) {
        const std::unique_ptr<Flag> over{static_cast<Flag*>(held)};
        (*over)->store(true);
    };
    TRTW_CUDA(cudaUserObjectCreate(&object, flag.get(), end, 1, cudaUserObjectNoDestructorSync));
    static_cast<void>(flag.release()); // NOLINT(bugprone-unused-return-value): the object's now
    TRTW_CUDA(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
}

void CapturedCall::check(const Call& call) const {
    check_call(plan_->inputs(), plan_->outputs().size(), call);
    if (plan_->streams_weights()) {
        throw UsageProblem(std::string{"This call cannot be captured: "} + no_graph_of_streamed_weights + ".");
    }
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (call.inputs[i].source != Source::device) {
            throw UsageProblem("Input '" + plan_->inputs()[i].name +
                               "' is not on the device: a graph would read again what it is now. Pass a device array.");
        }
    }
}

void CapturedCall::make_inputs(const Call& call, cudaStream_t stream) {
    for (std::size_t i = 0; i < copies_.size(); ++i) {
        const std::size_t bytes = bound_bytes(plan_->inputs()[i], call.inputs[i].shape);
        copies_[i] = std::make_unique<DeviceMemory>(bytes);
        TRTW_CUDA(cudaMemsetAsync(copies_[i]->data(), 0, bytes, stream));
    }
}

void CapturedCall::make_context(const Call& call, std::optional<int> profile, cudaStream_t stream) {
    CallShapes shapes;
    for (const Input& input : call.inputs) {
        shapes.shapes.push_back(input.shape);
    }
    shapes.values.resize(shapes.shapes.size());
    const int chosen = choose_profile(plan_->inputs(), shapes, profile);
    scratch_ = std::make_unique<DeviceMemory>(plan_->device_memory_bytes());
    execution_ = Execution::create(plan_, chosen, scratch_->data(), stream);
    if (!execution_) {
        throw UsageProblem("Profile " + std::to_string(chosen) +
                           " is in use by another execution context, and the engine was built without profile sharing, "
                           "which a call within a graph of yours needs. Build it again with profile sharing (TensorRT "
                           "10 always has it).");
    }
    for (std::size_t i = 0; i < copies_.size(); ++i) {
        execution_->bind_input(i, copies_[i]->data());
    }
    execution_->set_shapes(shapes.shapes);
}

void CapturedCall::make_outputs(const Call& call) {
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
        const TensorInfo& tensor = plan_->outputs()[o];
        const std::optional<Shape> shape = execution_->output_shape(o);
        if (!shape || tensor.on_host) {
            throw UsageProblem("This call cannot be captured: " +
                               std::string{shape ? "TensorRT writes output '" : "the shape of output '"} + tensor.name +
                               (shape ? "' in host memory." : "' depends on the data."));
        }
        Output& output = outputs_[o];
        output.tensor = &tensor;
        output.shape = *shape;
        output.bytes = byte_size(tensor, *shape);
        const auto aliased = plan_->aliased_input(o);
        if (!aliased && !output.device) {
            output.device = std::make_shared<DeviceMemory>(output.bytes);
        }
        execution_->bind_output(o, aliased ? input_address(call, *aliased) : output.device->data());
    }
}

// What the engine reads for an input at present.
void* CapturedCall::input_address(const Call& call, std::size_t input) const {
    return copies_[input] ? copies_[input]->data() : const_cast<void*>(call.inputs[input].data);
}

void CapturedCall::add_to(MemoryUse& use) const noexcept {
    use.device_scratch += scratch_->bytes();
    for (const Output& output : outputs_) {
        use.device_outputs += output.device ? output.bytes : 0;
    }
    for (const auto& copy : copies_) {
        use.device_inputs += copy ? copy->bytes() : 0;
    }
}

} // namespace trtw
