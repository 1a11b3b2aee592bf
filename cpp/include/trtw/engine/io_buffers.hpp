// The device and pinned host memory of one slot's inputs and outputs.
#pragma once

#include "trtw/device/memory.hpp"
#include "trtw/engine/output_allocator.hpp"
#include "trtw/engine/plan.hpp"

#include <memory>
#include <vector>

namespace trtw::engine {

struct InputBuffers {
    device::DeviceBuffer device;
    device::PinnedBuffer host;
};

struct OutputBuffers {
    std::unique_ptr<OutputAllocator> allocator = std::make_unique<OutputAllocator>(); ///< owns the device buffer
    device::PinnedBuffer host;
    [[nodiscard]] device::DeviceBuffer& device() noexcept { return allocator->buffer(); }
    [[nodiscard]] const device::DeviceBuffer& device() const noexcept { return allocator->buffer(); }
};

struct MemoryUse {
    std::size_t device_scratch = 0;
    std::size_t device_inputs = 0;
    std::size_t device_outputs = 0;
    std::size_t device_state = 0;
    std::size_t device_images = 0;
    std::size_t pinned_inputs = 0;
    std::size_t pinned_outputs = 0;
    std::size_t pinned_images = 0;
};

struct IoBuffers {
    explicit IoBuffers(const Plan& plan) : inputs(plan.inputs().size()), outputs(plan.outputs().size()) {}

    void add_to(MemoryUse& use) const noexcept {
        for (const InputBuffers& input : inputs) {
            use.device_inputs += input.device.capacity();
            use.pinned_inputs += input.host.capacity();
        }
        for (const OutputBuffers& output : outputs) {
            use.device_outputs += output.device().capacity();
            use.pinned_outputs += output.host.capacity();
        }
    }

    std::vector<InputBuffers> inputs;
    std::vector<OutputBuffers> outputs;
};

} // namespace trtw::engine
