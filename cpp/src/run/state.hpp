// Tensors that stay on the device and feed back from an output to an input between calls.
#pragma once

#include "trtw/call.hpp"
#include "trtw/plan.hpp"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trtw {

/// A state input's value on the device.
struct StateValue {
    std::shared_ptr<DeviceMemory> memory;
    Shape shape;
};

/// One pair has two buffers: a call reads one and writes the other, then they change roles. A pair whose output is
/// aliased to its input has one, which a call updates in place.
class StateStore {
public:
    /// `pairs` maps output names to input names. Throws UsageProblem for unknown names, for dtypes or ranks that
    /// differ, for an output or input that is used twice, and for an output that is aliased to another input.
    StateStore(const Plan& plan, const std::map<std::string, std::string>& pairs);

    [[nodiscard]] bool empty() const noexcept { return pairs_.empty(); }
    /// 0 or 1: which of the two buffers is read by the next call.
    [[nodiscard]] int parity() const noexcept { return parity_; }
    /// Index of the pair that an input or output belongs to; -1 for none.
    [[nodiscard]] int pair_of_input(std::size_t input) const noexcept { return by_input_[input]; }
    [[nodiscard]] int pair_of_output(std::size_t output) const noexcept { return by_output_[output]; }

    // The next call's inputs, in two steps: what may be refused or find no memory changes no value.

    /// Throws UsageProblem for a value that the input cannot have.
    void check(std::size_t input, const Input& value) const;
    /// The shape of the value that the next call reads; where there is none yet, of the zeros that it starts from.
    /// Throws UsageProblem where that shape is dynamic.
    [[nodiscard]] const Shape& next_shape(std::size_t input) const;
    /// Makes room for a value of this shape; `apart` from the value that is there, for `undo`. Throws OutOfMemory.
    void make_room(std::size_t input, const Shape& shape, bool apart);

    /// Gives an input its value for the next call, in the room that was made. Of a host array the copy is done when
    /// this returns, of a device array it is under way on the stream. True when an address changed.
    bool set(std::size_t input, const Input& value, cudaStream_t stream);
    /// Makes zeros, in the room that was made, where there is no value yet. True when an address changed.
    bool fill(std::size_t input, cudaStream_t stream);
    [[nodiscard]] bool has_value(std::size_t input) const noexcept { return pair_at(input).has_value; }
    /// Values that were given stay, or are taken back as far as what they took the place of is there still.
    void keep() noexcept;
    void undo() noexcept;
    /// Forgets every value: the next call starts from zeros where the shape is fixed, else needs values.
    void reset() noexcept;

    /// Leaves memory that the next call would write, and that somebody else still holds, to its holders; values are
    /// kept. What was read by others is waited for on the stream. True when an address changed.
    bool leave_lent(cudaStream_t stream);
    /// Makes room for what this call writes; true when an address changed.
    bool reserve_output(std::size_t output, std::size_t bytes, int profile);
    /// Whether outputs and inputs change roles: then calls of equal shapes come in two kinds.
    [[nodiscard]] bool turns() const noexcept;
    /// The call is on its way: outputs become the next inputs.
    void advance(const std::vector<Shape>& output_shapes);

    [[nodiscard]] void* input_address(std::size_t input) const noexcept { return pair_at(input).at(parity_).data(); }
    /// What the next call reads for an input; without a value, no memory.
    [[nodiscard]] StateValue value(std::size_t input) const;
    /// What this call writes for an output.
    [[nodiscard]] const std::shared_ptr<DeviceMemory>& output_block(std::size_t output) const noexcept;
    [[nodiscard]] std::size_t device_bytes() const noexcept;

private:
    /// What a call's own value took the place of.
    struct Former {
        Shape shape;
        bool has_value = false;
        bool in_room = false;
    };
    struct Pair {
        std::size_t input = 0;
        std::size_t output = 0;
        bool in_place = false;
        std::array<DeviceBuffer, 2> buffers;
        DeviceBuffer room; ///< for the next value, where it cannot go where the last one is
        bool needs_room = false;
        bool apart = false; ///< the last one is kept in `room` for another time
        Shape shape;
        bool has_value = false;
        std::optional<Former> former; ///< until it is certain that the call is on its way

        [[nodiscard]] DeviceBuffer& at(int place) noexcept {
            return buffers[in_place ? 0 : static_cast<std::size_t>(place)];
        }
        [[nodiscard]] const DeviceBuffer& at(int place) const noexcept {
            return buffers[in_place ? 0 : static_cast<std::size_t>(place)];
        }
    };
    bool reserve(DeviceBuffer& buffer, const Pair& pair, std::size_t bytes, int profile) const;
    bool enter(Pair& pair, const Shape& shape);
    [[nodiscard]] const Pair& pair_at(std::size_t input) const noexcept {
        return pairs_[static_cast<std::size_t>(by_input_[input])];
    }
    [[nodiscard]] Pair& pair_at(std::size_t input) noexcept {
        return pairs_[static_cast<std::size_t>(by_input_[input])];
    }

    const Plan* plan_;
    std::vector<Pair> pairs_;
    std::vector<int> by_input_;
    std::vector<int> by_output_;
    int parity_ = 0;
};

} // namespace trtw
