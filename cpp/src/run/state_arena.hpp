// The state of a pool's streams on the device.
#pragma once

#include "run/batch_rows.hpp"
#include "run/row_copy.hpp"
#include "trtw/memory.hpp"
#include "trtw/stream_pool.hpp"

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace trtw {

/// One arena for each state tensor, with a row for each stream and one more, the spare row, which holds the initial
/// state; and a batch of rows for each, where the engine reads them. Its work goes to one stream, in order.
class StateArena {
public:
    /// `capacity` rows, batches of at most `most_rows`. Throws UsageProblem for state that does not fit the engine,
    /// OutOfMemory or DeviceFailure.
    StateArena(const Plan& plan, const std::vector<StreamState>& state, std::int32_t capacity, std::size_t most_rows,
               cudaStream_t stream);

    /// Gives each state input of a call its place and shape in a batch.
    void place(std::vector<Input>& inputs, std::size_t rows) const;
    /// Throws UsageProblem where an output would not become the state of such a batch.
    void check_outputs(const std::vector<Shape>& outputs, std::size_t rows) const;

    /// The rows of the next batch; those that are left over are the spare row. What was enqueued before has to be done.
    void choose(std::span<const std::int32_t> rows, std::size_t batch_rows);
    void gather(std::size_t batch_rows, cudaStream_t stream);
    void scatter(std::size_t batch_rows, const std::function<void*(std::size_t)>& output_address,
                 cudaStream_t stream) const;

    /// Gives a row the initial state.
    void reset(std::int32_t row);
    [[nodiscard]] std::vector<StreamValue> save(std::int32_t row) const;
    /// Throws UsageProblem, and has changed nothing then.
    void restore(std::int32_t row, const std::vector<std::pair<std::size_t, Input>>& values);

    [[nodiscard]] std::size_t arena_bytes() const noexcept;
    [[nodiscard]] std::size_t row_bytes() const noexcept;
    [[nodiscard]] std::size_t batch_bytes() const noexcept;

private:
    using Block = std::unique_ptr<Memory<Place::device>>;
    struct Tensor {
        std::size_t input = 0;
        std::size_t output = 0;
        std::size_t input_axis = 0;
        std::size_t output_axis = 0;
        Shape shape; ///< of one row, as the input has it
        std::size_t row_bytes = 0;
        std::size_t stride = 0;
        Block arena;
        Block batch;

        [[nodiscard]] std::byte* row(std::int32_t index) const noexcept {
            return static_cast<std::byte*>(arena->data()) + static_cast<std::size_t>(index) * stride;
        }
    };
    [[nodiscard]] static Shape batch_shape(const Tensor& tensor, std::size_t axis, std::size_t rows);
    [[nodiscard]] Tensor make(const StreamState& state) const;
    void copy(RowDirection direction, std::size_t batch_rows, const std::function<void*(const Tensor&)>& batch_address,
              cudaStream_t stream) const;
    [[nodiscard]] std::vector<std::byte> packed(const Tensor& tensor, const Input& value) const;

    const Plan* plan_;
    std::int32_t spare_;
    cudaStream_t stream_;
    std::vector<Tensor> tensors_;
    PinnedMemory chosen_; ///< int32, a row for each of the batch
    Memory<Place::device> rows_;
};

} // namespace trtw
