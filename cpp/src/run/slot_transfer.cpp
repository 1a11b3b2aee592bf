// Moves a call's inputs to the device and its outputs to the host.
#include "device/check.hpp"
#include "device/copy_pool.hpp"
#include "run/host_array.hpp"
#include "run/slice.hpp"
#include "run/slot.hpp"

#include <cstdint>
#include <cstring>
#include <functional>

namespace trtw::engine {

namespace {

// Whether an address lies in the buffer: then the caller passes (part of) a view of it.
bool holds(const device::PinnedBuffer& buffer, const void* address) {
    const auto begin = reinterpret_cast<std::uintptr_t>(buffer.data());
    const auto position = reinterpret_cast<std::uintptr_t>(address);
    return position >= begin && position < begin + buffer.capacity();
}

// CUDA's copies of two dimensions take no more than this, which the logits of a long text exceed.
constexpr std::size_t kMaxPitch = 0x7FFF'FFFF;

void copy_slice(void* target, const void* source, const Slice& slice, cudaStream_t stream) {
    auto* out = static_cast<std::byte*>(target);
    const auto* first = static_cast<const std::byte*>(source) + slice.offset;
    if (slice.pitch <= kMaxPitch) {
        TRTW_CUDA(cudaMemcpy2DAsync(out, slice.width, first, slice.pitch, slice.width, slice.rows,
                                    cudaMemcpyDeviceToHost, stream));
        return;
    }
    for (std::size_t row = 0; row < slice.rows; ++row) {
        TRTW_CUDA(cudaMemcpyAsync(out + row * slice.width, first + row * slice.pitch, slice.width,
                                  cudaMemcpyDeviceToHost, stream));
    }
}

} // namespace

// Fills the pinned buffer, unless the caller wrote there already.
void Slot::stage(const Call& call, std::size_t input) {
    const Input& source = call.inputs[input];
    const device::PinnedBuffer& buffer = io_.inputs[input].host;
    const TensorInfo& tensor = plan_->inputs()[input];
    if (source.strides.empty()) {
        if (source.data == buffer.data()) {
            ++in_place_inputs_;
        } else if (holds(buffer, source.data)) {
            std::memmove(buffer.data(), source.data, byte_size(tensor, source.shape));
        } else {
            device::copy_memory(buffer.data(), source.data, byte_size(tensor, source.shape));
        }
        return;
    }
    ++strided_copies_;
    if (!holds(buffer, source.data)) {
        copy_strided(buffer.data(), source.data, source.shape, source.strides, tensor.bits / 8);
        return;
    }
    std::vector<std::byte> packed(byte_size(tensor, source.shape));
    copy_strided(packed.data(), source.data, source.shape, source.strides, tensor.bits / 8);
    std::memcpy(buffer.data(), packed.data(), packed.size());
}

// Stages and transfers, piece by piece where that lets both overlap: the device copies one while the host fills the
// next.
void Slot::copy_input(const Call& call, std::size_t input, cudaStream_t stream) {
    const Input& source = call.inputs[input];
    const std::size_t bytes = byte_size(plan_->inputs()[input], source.shape);
    auto* host = static_cast<std::byte*>(io_.inputs[input].host.data());
    auto* device = static_cast<std::byte*>(io_.inputs[input].device.data());
    const auto transfer = [&](std::size_t offset, std::size_t size) {
        TRTW_CUDA(cudaMemcpyAsync(device + offset, host + offset, size, cudaMemcpyHostToDevice, stream));
    };
    if (source.strides.empty() && !holds(io_.inputs[input].host, source.data)) {
        device::copy_in_pieces(host, source.data, bytes, std::ref(transfer));
        return;
    }
    stage(call, input);
    if (bytes > 0) {
        transfer(0, bytes);
    }
}

void Slot::copy_outputs(const Call& call, const Prepared& entry, cudaStream_t stream) {
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        const TensorInfo& tensor = plan_->outputs()[o];
        if (tensor.on_host || !wants_host(call, o)) {
            continue;
        }
        const Shape& shape = entry.output_data_dependent[o] ? output_shapes_[o] : entry.output_shapes[o];
        const std::size_t bytes = host_bytes(call, o, shape);
        if (bytes == 0) {
            continue;
        }
        const void* source = entry.output_data_dependent[o] ? io_.output(o).data() : output_address(call, o);
        if (const auto index = host_index(call, o)) {
            copy_slice(io_.outputs[o].host.data(), source, slice_at(tensor, shape, *index), stream);
        } else {
            TRTW_CUDA(cudaMemcpyAsync(io_.outputs[o].host.data(), source, bytes, cudaMemcpyDeviceToHost, stream));
        }
    }
}

void Slot::letterbox([[maybe_unused]] const Call& call, [[maybe_unused]] cudaStream_t stream) {
#ifdef TRTW_WITH_KERNELS
    const std::size_t held = letterbox_.pinned_bytes() + letterbox_.device_bytes();
    bool letterboxed = false;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const Input& input = call.inputs[i];
        if (input.source == Source::images) {
            if (letterboxed) {
                TRTW_CUDA(cudaStreamSynchronize(stream)); // its staging memory holds one batch
            }
            letterboxed = true;
            page_locked_images_ += letterbox_.enqueue(input.images, input.spec, io_.inputs[i].device.data(), stream);
        }
    }
    memory_grew_ = memory_grew_ || letterbox_.pinned_bytes() + letterbox_.device_bytes() != held;
#endif
}

} // namespace trtw::engine
