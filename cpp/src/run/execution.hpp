// One execution context: its profile, the shapes and addresses bound to it, its launch.
#pragma once

#include "run/output_allocator.hpp"
#include "trtw/plan.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trtw {

/// Whether TensorRT takes memory there.
inline bool is_aligned(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) % 256 == 0;
}

class AllocatorAdapter;
class ProfilerAdapter;

/// Is told the device time of every layer of a run, in order. Must not throw.
using LayerReport = std::function<void(const char* layer, float milliseconds)>;

/// Not thread-safe, as TensorRT's contexts are not.
class Execution {
public:
    /// Makes a context on `profile` that works in `scratch` (plan.device_memory_bytes() of device memory, shared with
    /// other contexts that never run at the same time). Returns nullptr where another context holds the profile and
    /// the engine was built without profile sharing (TensorRT 8.6). Throws OutOfMemory or DeviceFailure.
    static std::unique_ptr<Execution> create(std::shared_ptr<const Plan> plan, int profile, void* scratch,
                                             cudaStream_t stream);

    /// Waits while another thread makes or destroys a context of the plan.
    ~Execution();
    Execution(const Execution&) = delete;
    Execution& operator=(const Execution&) = delete;

    /// Sets every input's shape. Shape tensors on the host must have their addresses and values by then.
    /// Throws UsageProblem, with TensorRT's words, for shapes it refuses.
    void set_shapes(std::span<const Shape> shapes);
    /// Shape of an output under the current input shapes; nullopt where it depends on the data.
    [[nodiscard]] std::optional<Shape> output_shape(std::size_t output) const;

    void bind_input(std::size_t input, void* address);
    void bind_output(std::size_t output, void* address);
    void bind_allocator(std::size_t output, OutputAllocator& allocator);

    /// Throws OutOfMemory or DeviceFailure, with what TensorRT said about this very call.
    void enqueue(cudaStream_t stream);

    /// Makes every later run report its layers, which slows it.
    void report_layers(LayerReport report);

    [[nodiscard]] int profile() const noexcept { return profile_; }

private:
    Execution() = default;

    std::shared_ptr<const Plan> plan_;                        // outlives the context
    std::vector<std::shared_ptr<AllocatorAdapter>> adapters_; // likewise
    std::shared_ptr<ProfilerAdapter> profiler_;
    std::shared_ptr<nvinfer1::IExecutionContext> context_;
    int profile_ = 0;
};

} // namespace trtw
