// Memory for outputs whose shape TensorRT knows only while it runs.
#pragma once

#include "trtw/device/memory.hpp"
#include "trtw/engine/tensor.hpp"
#include "trtw/engine/version.hpp"

#include <NvInferRuntime.h>

namespace trtw::engine {

/// Grows a device buffer as TensorRT asks, and notes the shape it reports.
class OutputAllocator final : public nvinfer1::IOutputAllocator {
public:
#if NV_TENSORRT_MAJOR >= 10
    void* reallocateOutputAsync(const char* name, void* current, std::uint64_t bytes, std::uint64_t alignment,
                                cudaStream_t stream) override;
#else
    void* reallocateOutput(const char* name, void* current, std::uint64_t bytes,
                           std::uint64_t alignment) noexcept override;
#endif
    void notifyShape(const char* name, const nvinfer1::Dims& dims) noexcept override;

    /// Forgets the shape of the last call.
    void begin_call() noexcept;

    [[nodiscard]] device::DeviceBuffer& buffer() noexcept { return buffer_; }
    [[nodiscard]] const device::DeviceBuffer& buffer() const noexcept { return buffer_; }
    /// The shape of this call's output; throws DeviceFailure where TensorRT reported none.
    [[nodiscard]] const Shape& shape() const;
    [[nodiscard]] bool ran_out_of_memory() const noexcept { return out_of_memory_; }
    /// Whether this call needed more memory than those before it.
    [[nodiscard]] bool grew() const noexcept { return grew_; }

private:
    void* grow(std::uint64_t bytes) noexcept;

    device::DeviceBuffer buffer_;
    Shape shape_;
    bool known_ = false;
    bool out_of_memory_ = false;
    bool grew_ = false;
};

} // namespace trtw::engine
