#include "trtw/stream_pool.hpp"

#include "device/range.hpp"
#include "device/scope.hpp"
#include "run/batch_sizes.hpp"
#include "run/host_array.hpp"
#include "run/slot.hpp"
#include "run/state_arena.hpp"
#include "run/stream_table.hpp"

#include <cstring>

namespace trtw {

namespace {

constexpr std::int32_t most_streams = 1 << 20;

StreamPoolOptions checked(StreamPoolOptions options) {
    if (options.capacity < 1 || options.capacity > most_streams) {
        throw UsageProblem("A pool has room for 1 to " + std::to_string(most_streams) + " streams; got " +
                           std::to_string(options.capacity) + ".");
    }
    return options;
}

void add(Timing& sum, const Timing& one) {
    sum.enqueue_ms += one.enqueue_ms;
    sum.h2d_ms += one.h2d_ms;
    sum.compute_ms += one.compute_ms;
    sum.d2h_ms += one.d2h_ms;
}

} // namespace

/// A call of the pool: the only one, on the engine's device.
class StreamPool::Turn {
public:
    explicit Turn(const StreamPool& pool) : lock_{pool.mutex_, std::try_to_lock}, scope_{pool.plan_->device()} {
        if (!lock_) {
            throw UsageProblem("Another thread is using the stream pool; only one thread at a time may use it.");
        }
    }

private:
    std::unique_lock<std::mutex> lock_;
    DeviceScope scope_;
};

StreamPool::StreamPool(std::shared_ptr<const Plan> plan, StreamPoolOptions options)
    : plan_{std::move(plan)}, options_{checked(std::move(options))},
      streams_{std::make_unique<StreamTable>(options_.capacity)} {
    const DeviceScope scope{plan_->device()};
    check_tensors(plan_->tensors());
    sizes_ = std::make_unique<BatchSizes>(options_.buckets, plan_->inputs(), take_axes());
    RunnerOptions running;
    running.cuda_graph = options_.cuda_graphs;
    running.spin = options_.spin;
    running.timing = options_.timing;
    running.graph_includes_transfers = true; // one stream, which the state's work goes to as well
    running.graph_cache = options_.graph_cache;
    running.outputs.emplace();
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        if (!is_state_output_[o]) {
            running.outputs->push_back(plan_->outputs()[o].name);
        }
    }
    Surroundings surroundings;
    surroundings.before = [this](cudaStream_t stream) { arena_->gather(rows_, stream); };
    surroundings.after = [this](const auto& output, const auto& /*shapes*/, cudaStream_t stream) {
        arena_->scatter(rows_, output, stream);
        return false;
    };
    slot_ = std::make_unique<Slot>(plan_, running, std::move(surroundings));
    arena_ = std::make_unique<StateArena>(*plan_, options_.state, options_.capacity, *sizes_->all().rbegin(),
                                          slot_->stream());
}

// Contexts, streams and memory go on the device that they were made on.
StreamPool::~StreamPool() {
    const DeviceScope scope{plan_->device(), std::nothrow};
    slot_.reset();
    arena_.reset();
}

// Returns the batch axes of all inputs, state included.
StreamPool::Axes StreamPool::take_axes() {
    const std::vector<TensorInfo>& inputs = plan_->inputs();
    const std::vector<TensorInfo>& outputs = plan_->outputs();
    input_axes_.resize(inputs.size());
    output_axes_.resize(outputs.size());
    is_state_input_.resize(inputs.size());
    is_state_output_.resize(outputs.size());
    for (const auto& [name, axis] : options_.batch_axes) {
        const auto input = index_of(inputs, name);
        const auto output = index_of(outputs, name);
        if (!input && !output) {
            throw UsageProblem("The engine has no input or output '" + name + "', for which a batch axis is given.");
        }
        const TensorInfo& tensor = input ? inputs[*input] : outputs[*output];
        if (axis >= tensor.shape.size()) {
            throw UsageProblem("'" + name + "' " + bracketed(tensor.shape) + " has no axis " + std::to_string(axis) +
                               ", counted from 0.");
        }
        if (tensor.on_host) {
            throw UsageProblem("'" + name + "' is a shape tensor: its values are the same for all rows of a batch.");
        }
        (input ? input_axes_[*input] : output_axes_[*output]) = axis;
    }
    Axes all = input_axes_;
    for (const StreamState& state : options_.state) {
        const auto input = index_of(inputs, state.input);
        const auto output = index_of(outputs, state.output);
        if (!input || !output || state.input_axis >= inputs[*input].shape.size()) {
            continue; // the arena says what is wrong with it
        }
        input_axes_[*input].reset();
        output_axes_[*output].reset();
        is_state_input_[*input] = true;
        is_state_output_[*output] = true;
        all[*input] = state.input_axis;
    }
    return all;
}

std::int64_t StreamPool::open() {
    const Turn turn{*this};
    const std::int64_t stream = streams_->open();
    arena_->reset(streams_->row(stream));
    return stream;
}

void StreamPool::close(std::int64_t stream) {
    const Turn turn{*this};
    streams_->close(stream);
}

void StreamPool::close_all() {
    const Turn turn{*this};
    streams_->close_all();
}

std::size_t StreamPool::open_streams() const {
    const Turn turn{*this};
    return streams_->size();
}

void StreamPool::check(const std::vector<Input>& inputs, std::size_t streams) const {
    check_inputs(plan_->inputs(), inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const TensorInfo& tensor = plan_->inputs()[i];
        if (is_state_input_[i] != (inputs[i].source == Source::state)) {
            throw UsageProblem("Input '" + tensor.name +
                               (is_state_input_[i] ? "' is a state of the pool: set it with `restore`, not with a push."
                                                   : "' is not a state of the pool: it needs a value in every push."));
        }
        if (!is_state_input_[i] && inputs[i].source != Source::host) {
            throw UsageProblem("Input '" + tensor.name + "' must be an array in host memory for a stream pool.");
        }
        if (const auto axis = input_axes_[i]) {
            const Shape& shape = inputs[i].shape;
            if (shape.size() != tensor.shape.size() || shape[*axis] != static_cast<std::int64_t>(streams)) {
                throw UsageProblem("Input '" + tensor.name + "' has the shape " + bracketed(shape) + "; for " +
                                   std::to_string(streams) + (streams == 1 ? " stream" : " streams") + " axis " +
                                   std::to_string(*axis) + " of " + bracketed(tensor.shape) + " is " +
                                   std::to_string(streams) + ".");
            }
        }
    }
}

std::set<std::size_t> StreamPool::batch_sizes(Call& call, std::size_t streams) const {
    set_rows(call, streams);
    std::vector<Shape> shapes;
    for (const Input& input : call.inputs) {
        shapes.push_back(input.shape);
    }
    return sizes_->allowed(std::move(shapes));
}

// Makes a call one of a batch; of inputs whose rows differ in number it has the shape alone.
void StreamPool::set_rows(Call& call, std::size_t rows) const {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (input_axes_[i]) {
            call.inputs[i].shape[*input_axes_[i]] = static_cast<std::int64_t>(rows);
        }
    }
    arena_->place(call.inputs, rows);
}

// Whatever may be refused about a batch is refused here. Returns the shapes that outputs have for all streams.
std::vector<Shape> StreamPool::prepare(Call& call, std::size_t rows, std::size_t streams) {
    set_rows(call, rows);
    const Prepared& entry = slot_->prepare(call);
    if (entry.data_dependent) {
        throw UsageProblem("An output's shape depends on the data; a stream pool cannot separate its rows.");
    }
    arena_->check_outputs(entry.output_shapes, rows);
    std::vector<Shape> shapes = entry.output_shapes;
    for (std::size_t o = 0; o < shapes.size(); ++o) {
        if (is_state_output_[o]) {
            shapes[o].clear(); // nobody is given it
        }
        if (!output_axes_[o]) {
            continue;
        }
        if (shapes[o][*output_axes_[o]] != static_cast<std::int64_t>(rows)) {
            throw UsageProblem("Output '" + plan_->outputs()[o].name + "' has the shape " + bracketed(shapes[o]) +
                               " in a batch of " + std::to_string(rows) + ": axis " + std::to_string(*output_axes_[o]) +
                               " is not its batch axis.");
        }
        shapes[o] = with_rows(shapes[o], *output_axes_[o], streams);
    }
    return shapes;
}

void StreamPool::fill(Call& call, const std::vector<Input>& inputs, Packed& packed, const BatchPart& part,
                      std::size_t streams) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!input_axes_[i] || part.rows == streams) {
            continue; // the slot takes it as it is
        }
        const TensorInfo& tensor = plan_->inputs()[i];
        const Input& given = inputs[i];
        Input& input = call.inputs[i];
        const RowLayout layout = row_layout(tensor, input.shape, *input_axes_[i]);
        const bool is_strided = !given.strides.empty();
        if (part.range.count == part.rows && (is_strided || layout.outer == 1)) {
            // The slot takes these rows as they lie.
            const auto step = is_strided ? given.strides[*input_axes_[i]] : static_cast<std::int64_t>(layout.inner);
            input.data = static_cast<const std::byte*>(given.data) + static_cast<std::int64_t>(part.range.first) * step;
            input.strides = given.strides;
            continue;
        }
        const void* source = given.data;
        if (is_strided) {
            if (packed[i].empty()) {
                packed[i] = trtw::packed(given.data, given.shape, given.strides, tensor.bits / 8);
            }
            source = packed[i].data();
        }
        // Written where the slot would have to copy it to. The batch before is done: the device has read it.
        const auto block = slot_->input_block(i, byte_size(tensor, input.shape));
        take_rows(block->data(), part.rows, source, streams, part.range, layout);
        input.data = block->data();
        input.strides.clear();
    }
}

const std::vector<Output>& StreamPool::run(Call& call, const std::vector<Input>& inputs, Packed& packed,
                                           const BatchPart& part, std::span<const std::int32_t> rows,
                                           std::size_t streams) {
    set_rows(call, part.rows);
    fill(call, inputs, packed, part, streams);
    arena_->choose(rows, part.rows);
    rows_ = part.rows;
    slot_->launch(call, slot_->stream());
    return slot_->wait();
}

void StreamPool::push(std::span<const std::int64_t> streams, const std::vector<Input>& inputs, const MakeOutput& make) {
    const Range range{"push"};
    const Turn turn{*this};
    const Clock::time_point begin = Clock::now();
    const std::vector<std::int32_t> rows = streams_->rows(streams);
    check(inputs, rows.size());
    Call call;
    call.inputs = inputs;
    call.arrays_stay = true;
    const std::vector<BatchPart> parts = split(rows.size(), batch_sizes(call, rows.size()));
    const std::vector<Shape> shapes = prepare(call, parts.back().rows, rows.size());
    if (parts.front().rows != parts.back().rows && prepare(call, parts.front().rows, rows.size()) != shapes) {
        throw UsageProblem("Outputs have different shapes in a batch of " + std::to_string(parts.front().rows) +
                           " and in one of " + std::to_string(parts.back().rows) + ". The batch axes may be wrong.");
    }
    std::vector<void*> targets(shapes.size());
    for (std::size_t o = 0; o < shapes.size(); ++o) {
        targets[o] = is_state_output_[o] ? nullptr : make(o, shapes[o]);
    }
    Timing sum;
    Packed packed(inputs.size());
    for (const BatchPart& part : parts) {
        const auto some = std::span{rows}.subspan(part.range.first, part.range.count);
        const std::vector<Output>& outputs = run(call, inputs, packed, part, some, rows.size());
        for (std::size_t o = 0; o < outputs.size(); ++o) {
            const Output& output = outputs[o];
            if (targets[o] == nullptr || output.bytes == 0) {
                continue;
            }
            if (output_axes_[o]) {
                put_rows(targets[o], rows.size(), part.range, output.host->data(), part.rows,
                         row_layout(*output.tensor, output.shape, *output_axes_[o]));
            } else {
                std::memcpy(targets[o], output.host->data(), output.bytes);
            }
        }
        add(sum, slot_->timing());
    }
    sum.end_to_end_ms = milliseconds<float>(Clock::now() - begin);
    timing_ = sum;
}

void StreamPool::warm_up(const std::vector<Input>& inputs) {
    const Turn turn{*this};
    check(inputs, 1);
    Call call;
    call.inputs = inputs;
    const std::set<std::size_t> sizes = batch_sizes(call, 1);
    Packed packed(inputs.size());
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) { // falling, so that no buffer grows in between
        static_cast<void>(prepare(call, *size, 1));
        for (int use = 0; use < 2; ++use) {
            run(call, inputs, packed, {{0, 1}, *size}, {}, 1);
        }
    }
}

std::vector<StreamValue> StreamPool::save(std::int64_t stream) {
    const Turn turn{*this};
    return arena_->save(streams_->row(stream));
}

void StreamPool::restore(std::int64_t stream, const std::vector<std::pair<std::size_t, Input>>& values) {
    const Turn turn{*this};
    arena_->restore(streams_->row(stream), values);
}

std::vector<std::size_t> StreamPool::buckets() const {
    const std::set<std::size_t> sizes = sizes_->all();
    return {sizes.begin(), sizes.end()};
}

StreamPoolMemory StreamPool::memory() const {
    const MemoryUse use = slot_->status().memory;
    StreamPoolMemory memory;
    memory.arena = arena_->arena_bytes();
    memory.buffers = arena_->batch_bytes() + use.device_inputs + use.device_outputs;
    memory.contexts = use.device_scratch;
    memory.pinned = use.pinned_inputs + use.pinned_outputs;
    memory.per_stream = arena_->row_bytes();
    return memory;
}

Timing StreamPool::timing() const {
    const Turn turn{*this};
    if (!options_.timing || !timing_) {
        throw UsageProblem(options_.timing ? "Nothing was pushed yet." : "The pool was created without timing.");
    }
    return *timing_;
}

std::string StreamPool::graph_status() const {
    return graph_text(slot_->status());
}

} // namespace trtw
