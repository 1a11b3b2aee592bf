#include "run/transfers.hpp"

#include "device/check.hpp"
#include "device/copy_pool.hpp"
#include "run/host_array.hpp"
#include "run/slice.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace trtw {

namespace {

// Whether an address lies in the buffer: then the caller passes (part of) a view of it.
bool holds(const PinnedBuffer& buffer, const void* address) {
    const auto begin = reinterpret_cast<std::uintptr_t>(buffer.data());
    const auto position = reinterpret_cast<std::uintptr_t>(address);
    return position >= begin && position < begin + buffer.capacity();
}

// CUDA's copies of two dimensions take no more than this, which the logits of a long text exceed.
constexpr std::size_t most_pitch = 0x7FFF'FFFF;

void copy_slice(void* target, const void* source, const Slice& slice, cudaStream_t stream) {
    auto* out = static_cast<std::byte*>(target);
    const auto* first = static_cast<const std::byte*>(source) + slice.offset;
    if (slice.pitch <= most_pitch) {
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

void Transfers::stage(const Call& call, std::size_t input) {
    const Input& source = call.inputs[input];
    void* target = memory_->io().inputs[input].host.data();
    const TensorInfo& tensor = plan_->inputs()[input];
    if (!source.strides.empty()) {
        ++strided_copies_;
        copy_strided(target, source.data, source.shape, source.strides, tensor.bits / 8);
    } else if (source.data == target) {
        ++in_place_inputs_;
    } else {
        copy_memory(target, source.data, byte_size(tensor, source.shape));
    }
}

// What is staged first may overwrite what is staged next, where that lies in the first one's buffer.
const Call& Transfers::untangled(const Call& call) {
    if (!memory_->lends_inputs()) {
        return call;
    }
    check_call(plan_->inputs(), plan_->outputs().size(), call);
    const std::vector<InputBuffers>& buffers = memory_->io().inputs;
    bool tangled = false;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const Input& input = call.inputs[i];
        const bool in_place = input.strides.empty() && input.data == buffers[i].host.data();
        if (input.source != Source::host || in_place ||
            std::ranges::none_of(buffers, [&](const InputBuffers& one) { return holds(one.host, input.data); })) {
            continue;
        }
        if (!std::exchange(tangled, true)) {
            untangled_ = call;
            apart_.resize(buffers.size());
        }
        strided_copies_ += input.strides.empty() ? 0 : 1;
        apart_[i] = packed(input.data, input.shape, input.strides, plan_->inputs()[i].bits / 8);
        untangled_.inputs[i].data = apart_[i].data();
        untangled_.inputs[i].strides.clear();
    }
    return tangled ? untangled_ : call;
}

void Transfers::stage_inputs(const Call& call, const Prepared& entry) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (memory_->is_copied(call, i) && !is_copied_apart(entry.input_bytes[i])) {
            stage(call, i);
        }
    }
}

void Transfers::copy_staged(const Call& call, const Prepared& entry, cudaStream_t stream) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const std::size_t bytes = entry.input_bytes[i];
        if (memory_->is_copied(call, i) && bytes > 0 && !is_copied_apart(bytes)) {
            const InputBuffers& buffers = memory_->io().inputs[i];
            TRTW_CUDA(
                cudaMemcpyAsync(buffers.device.data(), buffers.host.data(), bytes, cudaMemcpyHostToDevice, stream));
        }
    }
}

void Transfers::copy_inputs(const Call& call, const Prepared& entry, cudaStream_t stream) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const std::size_t bytes = entry.input_bytes[i];
        if (memory_->is_copied(call, i) && bytes > 0 && (!entry.fused || is_copied_apart(bytes))) {
            copy_input(call, i, bytes, stream);
        }
    }
}

// The device reads what is page-locked where it lies; else it copies one piece while the host fills the next.
void Transfers::copy_input(const Call& call, std::size_t input, std::size_t bytes, cudaStream_t stream) {
    const Input& source = call.inputs[input];
    InputBuffers& buffers = memory_->io().inputs[input];
    auto* host = static_cast<std::byte*>(buffers.host.data());
    auto* device = static_cast<std::byte*>(buffers.device.data());
    const auto copy = [&](const void* from, std::size_t offset, std::size_t size) {
        TRTW_CUDA(cudaMemcpyAsync(device + offset, from, size, cudaMemcpyHostToDevice, stream));
    };
    const bool is_ours = source.strides.empty() && source.data == host;
    if (!is_ours && source.strides.empty() && call.arrays_stay && is_copied_apart(bytes) &&
        mapped(source.data, bytes) != nullptr) {
        ++in_place_inputs_;
        copy(source.data, 0, bytes);
    } else if (is_ours) {
        stage(call, input);
        copy(host, 0, bytes);
    } else if (source.strides.empty()) {
        const auto transfer = [&](std::size_t offset, std::size_t size) { copy(host + offset, offset, size); };
        copy_in_pieces(host, source.data, bytes, std::ref(transfer), polls_);
    } else {
        copy_rearranged(source, plan_->inputs()[input].bits / 8, bytes, buffers, stream);
    }
}

void Transfers::copy_rearranged(const Input& source, std::size_t element_bytes, std::size_t bytes,
                                InputBuffers& buffers, cudaStream_t stream) {
    ++strided_copies_;
    auto* host = static_cast<std::byte*>(buffers.host.data());
    auto* device = static_cast<std::byte*>(buffers.device.data());
    const StridedCopy copy{source.shape, source.strides, element_bytes};
    const std::size_t pieces = copy.pieces(piece_bytes(bytes));
    const auto fill = [&](std::size_t piece) { copy.copy_piece(host, source.data, piece, pieces); };
    const auto transfer_rows = [&](const Rows& rows) {
        if (rows.count == 1 || rows.pitch > most_pitch) {
            for (std::size_t row = 0; row < rows.count; ++row) {
                const std::size_t offset = rows.offset + row * rows.pitch;
                TRTW_CUDA(cudaMemcpyAsync(device + offset, host + offset, rows.width, cudaMemcpyHostToDevice, stream));
            }
        } else {
            TRTW_CUDA(cudaMemcpy2DAsync(device + rows.offset, rows.pitch, host + rows.offset, rows.pitch, rows.width,
                                        rows.count, cudaMemcpyHostToDevice, stream));
        }
    };
    const auto transfer = [&](std::size_t first, std::size_t end) {
        for (std::size_t piece = first; piece < end; ++piece) {
            transfer_rows(copy.rows(piece, pieces));
        }
    };
    run_pieces(bytes, pieces, std::ref(fill), std::ref(transfer), polls_);
}

bool Transfers::writes_into(const Call& call, std::size_t output, std::size_t bytes) const {
    void* target = call.into.empty() ? nullptr : call.into[output];
    return target != nullptr && is_copied_apart(bytes) && mapped(target, bytes) != nullptr;
}

void Transfers::copy_outputs(const Call& call, const Prepared& entry, const std::vector<Shape>& shapes, Outputs which,
                             cudaStream_t stream) {
    const HostOutputs& to_host = memory_->to_host();
    IoBuffers& io = memory_->io();
    for (std::size_t o = 0; o < io.outputs.size(); ++o) {
        const TensorInfo& tensor = plan_->outputs()[o];
        if (tensor.on_host || !to_host.wanted(call, o)) {
            continue;
        }
        const Shape& shape = entry.output_data_dependent[o] ? shapes[o] : entry.output_shapes[o];
        const std::size_t bytes = to_host.bytes(call, o, shape);
        if (bytes == 0 || (which != Outputs::all && (which == Outputs::apart) != is_copied_apart(bytes))) {
            continue;
        }
        Output& told = memory_->outputs[o];
        told.in_place = writes_into(call, o, bytes);
        void* target = told.in_place ? call.into[o] : io.outputs[o].host.data();
        const void* source = entry.output_data_dependent[o] ? io.output(o).data() : memory_->output_address(call, o);
        if (const auto index = to_host.index(call, o)) {
            copy_slice(target, source, slice_at(tensor, shape, *index), stream);
        } else {
            TRTW_CUDA(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost, stream));
        }
    }
}

bool Transfers::letterbox([[maybe_unused]] const Call& call, [[maybe_unused]] cudaStream_t stream) {
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
            LetterboxSpec spec = input.spec;
            if (const TensorInfo& tensor = plan_->inputs()[i]; !tensor.is_linear) {
                spec.layout = tensor.channel_group == 8 ? Layout::hwc8 : Layout::nhwc;
            }
            page_locked_images_ += letterbox_.enqueue(input.images, spec, memory_->bound_address(call, i), stream);
        }
    }
    return letterbox_.pinned_bytes() + letterbox_.device_bytes() != held;
#else
    return false;
#endif
}

void Transfers::count(SlotStatus& status) const noexcept {
    status.strided_copies = strided_copies_;
    status.in_place_inputs = in_place_inputs_;
    status.page_locked_images = page_locked_images_;
}

void Transfers::add_to([[maybe_unused]] MemoryUse& use) const noexcept {
#ifdef TRTW_WITH_KERNELS
    use.device_images = letterbox_.device_bytes();
    use.pinned_images = letterbox_.pinned_bytes();
#endif
}

} // namespace trtw
