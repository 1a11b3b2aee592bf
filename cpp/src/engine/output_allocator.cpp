#include "trtw/engine/output_allocator.hpp"

#include "trtw/engine/types.hpp"
#include "trtw/error.hpp"

#include <exception>

namespace trtw::engine {

void* OutputAllocator::grow(std::uint64_t bytes) noexcept {
    try {
        // cudaMalloc aligns to 256 bytes, which is what TensorRT asks for at most.
        grew_ = buffer_.reserve(static_cast<std::size_t>(bytes)) || grew_;
        return buffer_.data();
    } catch (const std::exception&) {
        out_of_memory_ = true;
        return nullptr; // TensorRT fails the call with an error of its own
    }
}

#if NV_TENSORRT_MAJOR >= 10
void* OutputAllocator::reallocateOutputAsync(const char* /*name*/, void* /*current*/, std::uint64_t bytes,
                                             std::uint64_t /*alignment*/, cudaStream_t /*stream*/) {
    return grow(bytes);
}
#else
void* OutputAllocator::reallocateOutput(const char* /*name*/, void* /*current*/, std::uint64_t bytes,
                                        std::uint64_t /*alignment*/) noexcept {
    return grow(bytes);
}
#endif

void OutputAllocator::notifyShape(const char* /*name*/, const nvinfer1::Dims& dims) noexcept {
    try {
        shape_ = to_vector(dims);
        known_ = true;
    } catch (const std::exception&) {
        known_ = false;
    }
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

} // namespace trtw::engine
