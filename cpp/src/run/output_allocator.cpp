#include "run/output_allocator.hpp"

#include "trtw/error.hpp"

#include <exception>
#include <utility>

namespace trtw {

void* OutputAllocator::grow(std::size_t bytes) noexcept {
    try {
        // cudaMalloc aligns to 256 bytes, which is what TensorRT asks for at most.
        grew_ = buffer_.reserve(bytes) || grew_;
        return buffer_.data();
    } catch (const std::exception&) {
        out_of_memory_ = true;
        return nullptr; // TensorRT fails the call with an error of its own
    }
}

void OutputAllocator::note_shape(Shape shape) noexcept {
    shape_ = std::move(shape);
    known_ = true;
}

void OutputAllocator::begin_call() noexcept {
    known_ = false;
    out_of_memory_ = false;
    grew_ = false;
}

const Shape& OutputAllocator::shape() const {
    if (!known_) {
        throw DeviceFailure("TensorRT reported no shape for an output whose shape depends on the data.");
    }
    return shape_;
}

} // namespace trtw
