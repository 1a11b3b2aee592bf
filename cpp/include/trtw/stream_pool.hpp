// Many sequences over one engine: their state on the device, their chunks in batches.
#pragma once

#include "trtw/call.hpp"
#include "trtw/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trtw {

class BatchSizes;
class Slot;
class StateArena;
class StreamTable;
struct BatchPart;

/// An output that a stream's next chunk reads as an input.
struct StreamState {
    std::string input;
    std::string output;
    std::size_t input_axis = 0;  ///< batch axis
    std::size_t output_axis = 0; ///< likewise; the other dimensions are the input's, in the same order
    /// What a stream starts from, in host memory, with extent 1 on the batch axis; zeros without.
    std::optional<Input> initial = {};
};

struct StreamPoolOptions {
    std::vector<StreamState> state = {};
    /// Batch axis of every other input and output that has a row a stream.
    std::map<std::string, std::size_t> batch_axes = {};
#define TRTW_OPTION(name, value, doc, ...) __VA_ARGS__ name = value;
#include "trtw/stream_pool_options.def"
#undef TRTW_OPTION
};

/// One state tensor of one stream.
struct StreamValue {
    const TensorInfo* input = nullptr;
    Shape shape; ///< extent 1 on the batch axis
    std::vector<std::byte> bytes;
};

/// Bytes that a pool holds, graphs and weights left out.
struct StreamPoolMemory {
    std::size_t arena = 0;      ///< the state of all streams, and of the spare row
    std::size_t buffers = 0;    ///< gathered state, inputs and outputs, on the device
    std::size_t contexts = 0;   ///< scratch memory, which all contexts share
    std::size_t pinned = 0;     ///< page-locked host memory
    std::size_t per_stream = 0; ///< of the arena
};

/// Streams come and go; a push runs one chunk of each of some. One thread at a time: another one that calls meanwhile
/// gets a UsageProblem. Only in a core with CUDA kernels.
class StreamPool {
public:
    /// Throws UsageProblem for options that do not fit the engine, OutOfMemory or DeviceFailure.
    StreamPool(std::shared_ptr<const Plan> plan, StreamPoolOptions options);
    ~StreamPool();
    StreamPool(const StreamPool&) = delete;
    StreamPool& operator=(const StreamPool&) = delete;

    /// A stream in its initial state; no number is given twice. Throws UsageProblem where `capacity` are open.
    std::int64_t open();
    /// Throws UsageProblem where the stream is not open, as all below.
    void close(std::int64_t stream);
    void close_all();
    [[nodiscard]] std::size_t open_streams() const;

    /// Memory for an output of this shape, to be filled before the push returns.
    using MakeOutput = std::function<void*(std::size_t output, const Shape& shape)>;
    /// Runs one chunk of each stream. `inputs`: all of the engine's in their order, those that are state with
    /// Source::state, the others host arrays, batched ones with a row a stream. `make` is called for every output but
    /// the state. More streams than the largest batch are run one batch after the other. Throws UsageProblem or
    /// OutOfMemory, and has changed no state then; DeviceFailure, where streams of earlier batches have moved on.
    void push(std::span<const std::int64_t> streams, const std::vector<Input>& inputs, const MakeOutput& make);
    /// Runs every batch size that the inputs' shapes allow until its graph is captured, on the spare row alone.
    /// `inputs` as for a push of one stream. Throws as `push`.
    void warm_up(const std::vector<Input>& inputs);

    /// By state, in the order of the options.
    [[nodiscard]] std::vector<StreamValue> save(std::int64_t stream);
    /// Host arrays by the index of their input, one for each state. Throws UsageProblem for values that do not fit; the
    /// state stays as it was.
    void restore(std::int64_t stream, const std::vector<std::pair<std::size_t, Input>>& values);

    [[nodiscard]] const Plan& plan() const noexcept { return *plan_; }
    [[nodiscard]] const StreamPoolOptions& options() const noexcept { return options_; }
    /// The batch sizes that are run, of all profiles together, ascending.
    [[nodiscard]] std::vector<std::size_t> buckets() const;
    [[nodiscard]] StreamPoolMemory memory() const;
    /// Of the last push, its batches summed; throws UsageProblem before the first and without `timing`.
    Timing timing() const;
    /// One line: "on: 2 graphs captured", "not yet: …", "off: …".
    [[nodiscard]] std::string graph_status() const;

private:
    class Turn;
    using Axes = std::vector<std::optional<std::size_t>>;
    using Packed = std::vector<std::vector<std::byte>>; ///< by input: those with gaps, without

    [[nodiscard]] Axes take_axes();
    void check(const std::vector<Input>& inputs, std::size_t streams) const;
    [[nodiscard]] std::set<std::size_t> batch_sizes(Call& call, std::size_t streams) const;
    void set_rows(Call& call, std::size_t rows) const;
    [[nodiscard]] std::vector<Shape> prepare(Call& call, std::size_t rows, std::size_t streams);
    void fill(Call& call, const std::vector<Input>& inputs, Packed& packed, const BatchPart& part,
              std::size_t streams) const;
    const std::vector<Output>& run(Call& call, const std::vector<Input>& inputs, Packed& packed, const BatchPart& part,
                                   std::span<const std::int32_t> rows, std::size_t streams);

    std::shared_ptr<const Plan> plan_;
    StreamPoolOptions options_;
    std::vector<bool> is_state_input_;
    std::vector<bool> is_state_output_;
    Axes input_axes_;  ///< by input, state left out
    Axes output_axes_; ///< by output, state left out
    std::unique_ptr<StreamTable> streams_;
    std::unique_ptr<BatchSizes> sizes_;
    std::unique_ptr<StateArena> arena_;
    std::unique_ptr<Slot> slot_; ///< goes first: what it has enqueued reads the arena
    std::size_t rows_ = 0;       ///< of the batch that is being launched
    std::optional<Timing> timing_;
    mutable std::mutex mutex_;
};

} // namespace trtw
