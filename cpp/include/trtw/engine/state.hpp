// Tensors that stay on the device and feed back from an output to an input between calls.
#pragma once

#include "trtw/engine/call.hpp"
#include "trtw/engine/plan.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace trtw::engine {

/// A state input's value on the device.
struct StateValue {
    std::shared_ptr<device::DeviceMemory> memory;
    Shape shape;
};

/// One pair has two buffers: a call reads one and writes the other, then they change roles.
class StateStore {
public:
    /// `pairs` maps output names to input names. Throws UsageProblem for unknown names, for dtypes or ranks that
    /// differ, and for an output or input that is used twice.
    StateStore(const Plan& plan, const std::map<std::string, std::string>& pairs);

    [[nodiscard]] bool empty() const noexcept { return pairs_.empty(); }
    /// 0 or 1: which of the two buffers is read by the next call.
    [[nodiscard]] int parity() const noexcept { return parity_; }
    /// Index of the pair that an input or output belongs to; -1 for none.
    [[nodiscard]] int pair_of_input(std::size_t input) const noexcept { return by_input_[input]; }
    [[nodiscard]] int pair_of_output(std::size_t output) const noexcept { return by_output_[output]; }

    /// Gives an input its value for the next call. Of a host array the copy is done when this returns, of a device
    /// array it is under way on the stream. True when an address changed.
    bool set(std::size_t input, const Input& value, cudaStream_t stream);
    /// Forgets every value: the next call starts from zeros where the shape is fixed, else needs values.
    void reset() noexcept;

    /// The shape of the next call's input. Makes zeros where there is no value yet; throws UsageProblem where the
    /// shape is dynamic then. Sets `changed` when an address changed.
    const Shape& next_input(std::size_t input, cudaStream_t stream, bool& changed);
    /// Makes room for what this call writes; true when an address changed.
    bool reserve_output(std::size_t output, std::size_t bytes, int profile);
    /// The call is on its way: outputs become the next inputs.
    void advance(const std::vector<Shape>& output_shapes);

    [[nodiscard]] void* input_address(std::size_t input) const noexcept;
    /// What the next call reads for an input; without a value, no memory.
    [[nodiscard]] StateValue value(std::size_t input) const;
    [[nodiscard]] const std::shared_ptr<device::DeviceMemory>& output_block(std::size_t output) const noexcept;
    [[nodiscard]] std::size_t device_bytes() const noexcept;

private:
    struct Pair {
        std::size_t input = 0;
        std::size_t output = 0;
        std::array<device::DeviceBuffer, 2> buffers;
        Shape shape;
        bool has_value = false;
    };
    bool reserve(device::DeviceBuffer& buffer, const Pair& pair, std::size_t bytes, int profile) const;
    [[nodiscard]] std::size_t reading() const noexcept { return static_cast<std::size_t>(parity_); }
    [[nodiscard]] std::size_t writing() const noexcept { return static_cast<std::size_t>(1 - parity_); }

    const Plan* plan_;
    std::vector<Pair> pairs_;
    std::vector<int> by_input_;
    std::vector<int> by_output_;
    int parity_ = 0;
};

} // namespace trtw::engine
