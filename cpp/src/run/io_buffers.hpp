// The device and pinned host memory of one slot's inputs and outputs.
#pragma once

#include "run/output_allocator.hpp"
#include "trtw/call.hpp"
#include "trtw/memory.hpp"
#include "trtw/plan.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace trtw {

struct InputBuffers {
    DeviceBuffer device;
    PinnedBuffer host;
};

struct OutputBuffers {
    /// Each owns a device buffer. The second gets memory once a call finds the first held by somebody else.
    std::array<OutputAllocator, 2> sets;
    PinnedBuffer host;
};

struct IoBuffers {
    explicit IoBuffers(const Plan& plan) : inputs(plan.inputs().size()), outputs(plan.outputs().size()) {}

    void add_to(MemoryUse& use) const noexcept {
        for (const InputBuffers& input : inputs) {
            use.device_inputs += input.device.capacity();
            use.pinned_inputs += input.host.capacity();
        }
        for (const OutputBuffers& output : outputs) {
            for (const OutputAllocator& one : output.sets) {
                use.device_outputs += one.buffer().capacity();
            }
            use.pinned_outputs += output.host.capacity();
        }
    }

    [[nodiscard]] OutputAllocator& allocator(std::size_t output) noexcept { return outputs[output].sets[set]; }
    [[nodiscard]] const OutputAllocator& allocator(std::size_t output) const noexcept {
        return outputs[output].sets[set];
    }
    [[nodiscard]] DeviceBuffer& output(std::size_t output) noexcept { return allocator(output).buffer(); }

    /// Turns to outputs on the device that nobody else holds; where both sets are held, the holders keep the memory of
    /// the first, which has to be reserved again. True in that case.
    bool turn_to_free_outputs() noexcept {
        for (set = 0; set < 2; ++set) {
            if (std::none_of(outputs.begin(), outputs.end(),
                             [&](const OutputBuffers& one) { return one.sets[set].buffer().is_lent(); })) {
                return false;
            }
        }
        set = 0;
        for (std::size_t o = 0; o < outputs.size(); ++o) {
            if (output(o).is_lent()) {
                output(o).release();
            }
        }
        return true;
    }

    std::vector<InputBuffers> inputs;
    std::vector<OutputBuffers> outputs;
    std::size_t set = 0; ///< of the outputs on the device: what the call writes
};

} // namespace trtw
