// The device and pinned host memory of one slot's inputs and outputs.
#pragma once

#include "run/output_allocator.hpp"
#include "trtw/call.hpp"
#include "trtw/memory.hpp"
#include "trtw/plan.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <vector>

namespace trtw {

struct InputBuffers {
    DeviceBuffer device;
    DeviceBuffer packed; ///< what the engine reads, of an input that is not row-major
    PinnedBuffer host;
};

struct OutputBuffers {
    /// Each owns a device buffer. A set gets memory once a call finds those before it held by somebody else.
    std::array<OutputAllocator, 4> sets;
    PinnedBuffer host;
};

struct IoBuffers {
    explicit IoBuffers(const Plan& plan) : inputs(plan.inputs().size()), outputs(plan.outputs().size()) {}

    void add_to(MemoryUse& use) const noexcept {
        for (const InputBuffers& input : inputs) {
            use.device_inputs += input.device.capacity() + input.packed.capacity();
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

    /// Turns to outputs on the device that nobody else holds. The last set is never lent.
    void turn_to_free_outputs() noexcept {
        const auto is_lent = [&](const OutputBuffers& one) { return one.sets[set].buffer().is_lent(); };
        set = 0;
        while (!hands_out_copies() && std::ranges::any_of(outputs, is_lent)) {
            ++set;
        }
    }
    /// Whether this call writes the set that is never lent, as all others are held: graphs go on being replayed.
    [[nodiscard]] bool hands_out_copies() const noexcept { return set + 1 == most_sets; }

    static constexpr std::size_t most_sets = std::tuple_size_v<decltype(OutputBuffers::sets)>;

    std::vector<InputBuffers> inputs;
    std::vector<OutputBuffers> outputs;
    std::size_t set = 0; ///< of the outputs on the device: what the call writes
};

} // namespace trtw
