// Memory for outputs whose shape TensorRT knows only while it runs.
#pragma once

#include "trtw/memory.hpp"
#include "trtw/tensor.hpp"

#include <cstddef>

namespace trtw {

/// Grows a device buffer as TensorRT asks, and notes the shape it reports. Of outputs of other kinds, the buffer alone.
class OutputAllocator {
public:
    /// Room for `bytes`; null where there is none.
    void* grow(std::size_t bytes) noexcept;
    void note_shape(Shape shape) noexcept;

    /// Forgets the shape of the last call.
    void begin_call() noexcept;

    [[nodiscard]] DeviceBuffer& buffer() noexcept { return buffer_; }
    [[nodiscard]] const DeviceBuffer& buffer() const noexcept { return buffer_; }
    /// The shape of this call's output; throws DeviceFailure where TensorRT reported none.
    [[nodiscard]] const Shape& shape() const;
    [[nodiscard]] bool ran_out_of_memory() const noexcept { return out_of_memory_; }
    /// Whether this call needed more memory than those before it.
    [[nodiscard]] bool grew() const noexcept { return grew_; }

private:
    DeviceBuffer buffer_;
    Shape shape_;
    bool known_ = false;
    bool out_of_memory_ = false;
    bool grew_ = false;
};

} // namespace trtw
