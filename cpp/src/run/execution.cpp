#include "run/execution.hpp"

#include "device/check.hpp"
#include "trt/api.hpp"
#include "trt/failure.hpp"
#include "trt/logger.hpp"
#include "trt/types.hpp"
#include "trt/version.hpp"

#include <NvInferRuntime.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

namespace trtw {

/// What TensorRT asks for memory, and tells the shape of an output.
class AllocatorAdapter final : public nvinfer1::IOutputAllocator {
public:
    explicit AllocatorAdapter(OutputAllocator& target) : target_{target} {}

#if NV_TENSORRT_MAJOR >= 10
    void* reallocateOutputAsync(const char* /*name*/, void* /*current*/, std::uint64_t bytes,
                                std::uint64_t /*alignment*/, cudaStream_t /*stream*/) override {
        return target_.grow(bytes);
    }
#else
    void* reallocateOutput(const char* /*name*/, void* /*current*/, std::uint64_t bytes,
                           std::uint64_t /*alignment*/) noexcept override {
        return target_.grow(bytes);
    }
#endif
    void notifyShape(const char* /*name*/, const nvinfer1::Dims& dims) noexcept override {
        try {
            target_.note_shape(to_vector(dims));
        } catch (const std::exception&) {
            target_.begin_call();
        }
    }

private:
    OutputAllocator& target_;
};

class ProfilerAdapter final : public nvinfer1::IProfiler {
public:
    explicit ProfilerAdapter(LayerReport report) : report_{std::move(report)} {}
    void reportLayerTime(const char* name, float milliseconds) noexcept override { report_(name, milliseconds); }

private:
    LayerReport report_;
};

namespace {

using Spoken = LogCapture::Of; // TensorRT reports what fails on the thread that asked for it

bool has_open_inputs(const Plan& plan) {
    return std::ranges::any_of(plan.inputs(), [](const TensorInfo& input) {
        return input.is_shape_tensor || input.on_host || is_dynamic(input.shape);
    });
}

void give_scratch(nvinfer1::IExecutionContext& context, void* scratch, [[maybe_unused]] std::size_t bytes) {
#if TRTW_IN_HEADERS(TRTW_TRT_MEMORY_SIZE_V2)
    if (has(TRTW_TRT_MEMORY_SIZE_V2)) {
        context.setDeviceMemoryV2(scratch, static_cast<std::int64_t>(bytes));
        return;
    }
#endif
    context.setDeviceMemory(scratch);
}

} // namespace

std::unique_ptr<Execution> Execution::create(std::shared_ptr<const Plan> plan, int profile, void* scratch,
                                             cudaStream_t stream) {
    const std::scoped_lock lock{plan->context_mutex()};
    const LogCapture capture{logger().buffer(), Spoken::this_thread};
    std::unique_ptr<Execution> made{new Execution};
    made->plan_ = std::move(plan);
    made->profile_ = profile;
    made->context_ = create_context(made->plan_->engine());
    if (!made->context_) {
        if (capture.errors().find("rofile") != std::string::npos) {
            return nullptr;
        }
        raise_device("creating an execution context", capture.errors());
    }
    nvinfer1::IExecutionContext& context = *made->context_;
    give_scratch(context, scratch, made->plan_->device_memory_bytes());
    if (context.getOptimizationProfile() != profile) {
        // Without dynamic inputs every context has the one profile: TensorRT 8.6 needs no call then, and may refuse it.
        if (!context.setOptimizationProfileAsync(profile, stream) && has_open_inputs(*made->plan_)) {
            return nullptr;
        }
        TRTW_CUDA(cudaStreamSynchronize(stream));
    }
    return made;
}

Execution::~Execution() {
    if (plan_) {
        const std::scoped_lock lock{plan_->context_mutex()};
        context_.reset();
    }
}

void Execution::set_shapes(std::span<const Shape> shapes) {
    const LogCapture capture{logger().buffer(), Spoken::this_thread};
    const std::vector<TensorInfo>& inputs = plan_->inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        // A shape without dynamic dimensions is fixed already.
        if (is_dynamic(inputs[i].shape) &&
            !context_->setInputShape(inputs[i].name.c_str(), to_dims(shapes[i], inputs[i].name))) {
            throw UsageProblem("TensorRT refuses the shape " + bracketed(shapes[i]) + " of input '" + inputs[i].name +
                               "': " + capture.errors());
        }
    }
    const std::int32_t unresolved = context_->inferShapes(0, nullptr);
    if (unresolved != 0) {
        throw UsageProblem("TensorRT cannot compute the shapes of this call: " + capture.errors());
    }
}

std::optional<Shape> Execution::output_shape(std::size_t output) const {
    const nvinfer1::Dims dims = context_->getTensorShape(plan_->outputs()[output].name.c_str());
    Shape shape = to_vector(dims);
    // A negative count: not even the rank is known yet, which differs from a scalar.
    if (dims.nbDims < 0 || is_dynamic(shape)) {
        return std::nullopt;
    }
    return shape;
}

void Execution::bind_input(std::size_t input, void* address) {
    const std::string& name = plan_->inputs()[input].name;
    const LogCapture capture{logger().buffer(), Spoken::this_thread};
    if (!context_->setTensorAddress(name.c_str(), address)) {
        raise_device("binding input '" + name + "'", capture.errors());
    }
}

void Execution::bind_output(std::size_t output, void* address) {
    const std::string& name = plan_->outputs()[output].name;
    const LogCapture capture{logger().buffer(), Spoken::this_thread};
    if (!context_->setTensorAddress(name.c_str(), address)) {
        raise_device("binding output '" + name + "'", capture.errors());
    }
}

void Execution::bind_allocator(std::size_t output, OutputAllocator& allocator) {
    const std::string& name = plan_->outputs()[output].name;
    auto adapter = std::make_shared<AllocatorAdapter>(allocator);
    const bool taken = context_->setOutputAllocator(name.c_str(), adapter.get());
    adapters_.resize(plan_->outputs().size());
    adapters_[output] = std::move(adapter);
    if (!taken) {
        throw DeviceFailure("TensorRT accepts no output allocator for '" + name + "'.");
    }
}

void Execution::enqueue(cudaStream_t stream) {
    const LogCapture capture{logger().buffer(), Spoken::this_thread};
    if (!context_->enqueueV3(stream)) [[unlikely]] {
        raise_device("running the engine", capture.errors());
    }
}

void Execution::report_layers(LayerReport report) {
    profiler_ = std::make_shared<ProfilerAdapter>(std::move(report));
    context_->setProfiler(profiler_.get());
}

} // namespace trtw
