#include "run/slot.hpp"

#include "device/range.hpp"
#include "run/slice.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

namespace trtw {

namespace {

bool is_default_stream(cudaStream_t stream) noexcept {
    return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

} // namespace

Slot::Slot(std::shared_ptr<const Plan> plan, const RunnerOptions& options, Surroundings surroundings)
    : plan_{std::move(plan)}, options_{options}, surroundings_{std::move(surroundings)}, lanes_{options_},
      memory_{*plan_, options_}, transfers_{*plan_, memory_, options_.spin},
      planner_{plan_, options_, lanes_, memory_, transfers_, [this] { settle(); }} {
    if (!options_.cuda_graph) {
        status_.graph_fallback = "switched off";
    }
    publish();
}

Slot::~Slot() {
    abandon();
}

const Prepared& Slot::prepare(const Call& call) {
    const CallGate::Call gate{plan_->gate()};
    lanes_.begin(stream(), options_.timing);
    try {
        return plan(call);
    } catch (const UsageProblem&) { // contexts are as they were
        throw;
    } catch (...) {
        abandon();
        throw;
    }
}

void Slot::launch(const Call& given, cudaStream_t stream, bool timed) {
    const Range range{"submit"};
    begin_ = Clock::now();
    const Call& call = transfers_.untangled(given);
    timing_ = {};
    gate_.emplace(plan_->gate());
    has_images_ = std::any_of(call.inputs.begin(), call.inputs.end(),
                              [](const Input& input) { return input.source == Source::images; });
    lanes_.begin(stream, timed);
    try {
        start(call, stream);
    } catch (const UsageProblem&) { // state and contexts are as they were, unless the call was on its way
        if (in_flight_) {
            abandon();
        } else {
            lanes_.done->record(stream); // it may have been made to wait for others
            left_on_ = stream;
        }
        lanes_.work = lanes_.compute.get();
        gate_.reset();
        throw;
    } catch (...) {
        abandon();
        throw;
    }
    lanes_.work = lanes_.compute.get();
}

Prepared& Slot::plan(const Call& call) {
    const bool told = std::exchange(outputs_told_, false); // not if this throws
    Prepared& entry = planner_.prepare(call);
    outputs_told_ = told && planner_.repeats();
    return entry;
}

void Slot::start(const Call& call, cudaStream_t stream) {
    follow(call);
    Prepared& entry = plan(call);
    Binding& binding = planner_.binding();
    Execution* execution = set_up(call, entry);
    if (execution != nullptr && is_default_stream(stream)) {
        leave_default_stream();
    }
    fused_run_ = entry.fused;
    in_flight_ = true; // from here on the streams have work, whatever fails
    left_on_.reset();
    wait_for_producers(call);
    memory_.move_inputs(call, entry, lanes_.work);
    if (entry.fused) {
        run_fused(call, entry, execution);
    } else {
        run_split(call, entry, execution);
    }
    if (stream != lanes_.compute.get() && (stream != lanes_.work || !entry.fused)) {
        lanes_.done->make_wait(stream);
    }
    collect_outputs(call, entry);
    const bool may_capture = options_.cuda_graph && entry.no_graph.empty() && !binding.capture_failed;
    if (may_capture && binding.own && !binding.graph && binding.uses >= 2) {
        capture(call, entry, binding);
    }
    if (!memory_.state().empty()) {
        memory_.state().advance(shapes_of(entry));
    }
    const bool untold = options_.cuda_graph && !entry.no_graph.empty() && status_.graph_fallback.empty();
    if (memory_.generation() != published_generation_ || memory_grew_ || untold) {
        publish(options_.cuda_graph ? entry.no_graph : "");
    }
}

// What an earlier call left under way comes first: on the device, or where the host writes what it may still read.
void Slot::follow(const Call& call) {
    if (!left_on_) {
        return;
    }
    const bool writes = std::ranges::any_of(
        call.inputs, [](const Input& input) { return input.source == Source::host || input.source == Source::images; });
    if (writes) {
        settle();
    } else if (*left_on_ != lanes_.work) {
        lanes_.done->make_wait(lanes_.work);
    }
}

void Slot::settle() {
    if (left_on_) {
        lanes_.done->synchronize();
        left_on_.reset();
    }
}

// The context that the call needs; null where there is a graph of it.
Execution* Slot::set_up(const Call& call, Prepared& entry) {
    Binding& binding = planner_.binding();
    if (binding.graph && binding.bound == memory_.generation()) {
        return nullptr;
    }
    Execution* execution = &planner_.set_up(call, entry);
    const bool may_capture = options_.cuda_graph && entry.no_graph.empty() && !binding.capture_failed;
    if (may_capture && ++binding.uses >= 2 && !binding.own && planner_.contexts().has_place(entry)) {
        planner_.contexts().promote(entry, binding);
    }
    return execution;
}

// TensorRT makes the host wait where it is given one of the default streams.
void Slot::leave_default_stream() {
    cudaStream_t caller = std::exchange(lanes_.work, lanes_.compute.get());
    lanes_.wait_for(caller);
}

Enqueued Slot::enqueue(const Call& call, cudaStream_t stream) {
    launch(call, stream, false);
    in_flight_ = false;
    gate_.reset();
    left_on_ = stream;
    return {memory_.outputs, lanes_.done};
}

void Slot::leave() noexcept {
    in_flight_ = false;
    gate_.reset();
    left_on_ = lanes_.capture.get(); // whatever comes next is on another one
}

const std::vector<Output>& Slot::wait() {
    const Range range{"wait"};
    in_flight_ = false;
    try {
        lanes_.done->synchronize();
        lanes_.read_times(timing_, fused_run_);
    } catch (...) {
        abandon();
        throw;
    }
    gate_.reset();
    timing_.end_to_end_ms = milliseconds<float>(Clock::now() - begin_);
    return memory_.outputs;
}

void Slot::wait_for_producers(const Call& call) {
    const auto is_there = [](const ImageView& image) { return image.device >= 0; };
    bool by_intake = false; // something comes from the device whose producer nobody names
    bool has_images_there = false;
    for (const Input& input : call.inputs) {
        if (input.source == Source::device && input.producer) {
            lanes_.wait_for(*input.producer);
        }
        by_intake = by_intake || (input.source == Source::device && !input.producer);
        has_images_there =
            has_images_there || (input.source == Source::images && std::ranges::any_of(input.images, is_there));
    }
    if (intake_ && lanes_.work == lanes_.compute.get() && (by_intake || has_images_there)) {
        lanes_.wait_for(*intake_);
    }
    if (has_images_there && !fused_run_) {
        lanes_.wait_for(lanes_.work, lanes_.input.get());
    }
}

// Small transfers, engine and small transfers back on one stream; what a fused graph consists of.
void Slot::fused_body(const Call& call, const Prepared& entry, Execution& execution, cudaStream_t stream,
                      bool capturing) {
    using Marks = Lanes::Marks;
    if (!has_images_ && !entry.inputs_apart) {
        lanes_.mark(&Marks::h2d_begin, stream, capturing);
    }
    transfers_.copy_staged(call, entry, stream);
    lanes_.mark(&Marks::compute_begin, stream, capturing);
    const Clock::time_point begin = Clock::now();
    compute(call, entry, execution, stream);
    timing_.enqueue_ms = milliseconds<float>(Clock::now() - begin);
    lanes_.mark(&Marks::compute_end, stream, capturing);
    transfers_.copy_outputs(call, entry, output_shapes_, Transfers::Outputs::others, stream);
}

void Slot::run_fused(const Call& call, const Prepared& entry, Execution* execution) {
    using Marks = Lanes::Marks;
    cudaStream_t stream = lanes_.work;
    transfers_.stage_inputs(call, entry);
    if (has_images_ || entry.inputs_apart) {
        lanes_.mark(&Marks::h2d_begin, stream);
    }
    if (has_images_) {
        letterbox(call, stream);
    }
    transfers_.copy_inputs(call, entry, stream);
    if (execution == nullptr) {
        const Clock::time_point begin = Clock::now();
        planner_.binding().graph.launch(stream);
        timing_.enqueue_ms = milliseconds<float>(Clock::now() - begin);
    } else {
        fused_body(call, entry, *execution, stream, false);
    }
    transfers_.copy_outputs(call, entry, output_shapes_, Transfers::Outputs::apart, stream);
    lanes_.mark(&Marks::d2h_end, stream);
    memory_.copy_outputs(call, entry.output_shapes, stream);
    lanes_.done->record(stream);
}

void Slot::run_split(const Call& call, const Prepared& entry, Execution* execution) {
    using Marks = Lanes::Marks;
    cudaStream_t input = lanes_.input.get();
    cudaStream_t compute = lanes_.work;
    cudaStream_t output = lanes_.output.get();
    lanes_.mark(&Marks::h2d_begin, input);
    if (has_images_) {
        letterbox(call, input);
    }
    transfers_.copy_inputs(call, entry, input);
    lanes_.mark(&Marks::h2d_end, input);
    lanes_.copied.record(input);
    lanes_.copied.make_wait(compute);
    lanes_.mark(&Marks::compute_begin, compute);
    run_engine(call, entry, execution);
    lanes_.mark(&Marks::compute_end, compute);
    lanes_.computed.record(compute);
    if (entry.data_dependent) {
        read_data_dependent_shapes(call, entry);
    }
    lanes_.computed.make_wait(output);
    lanes_.mark(&Marks::d2h_begin, output);
    transfers_.copy_outputs(call, entry, output_shapes_, Transfers::Outputs::all, output);
    lanes_.mark(&Marks::d2h_end, output);
    memory_.copy_outputs(call, shapes_of(entry), output);
    lanes_.done->record(output);
}

void Slot::letterbox(const Call& call, cudaStream_t stream) {
    memory_grew_ = transfers_.letterbox(call, stream) || memory_grew_;
}

void Slot::compute(const Call& call, const Prepared& entry, Execution& execution, cudaStream_t stream) {
    if (surroundings_.before) {
        surroundings_.before(stream);
    }
    memory_.pack_inputs(call, stream);
    execution.enqueue(stream);
    if (surroundings_.after) {
        memory_.count_change(surroundings_.after(
            [&](std::size_t output) { return memory_.output_address(call, output); }, entry.output_shapes, stream));
    }
}

void Slot::run_engine(const Call& call, const Prepared& entry, Execution* execution) {
    IoBuffers& io = memory_.io();
    for (std::size_t o = 0; o < io.outputs.size(); ++o) {
        if (entry.output_data_dependent[o]) {
            io.allocator(o).begin_call();
        }
    }
    const Clock::time_point begin = Clock::now();
    if (execution == nullptr) {
        planner_.binding().graph.launch(lanes_.work);
    } else {
        try {
            compute(call, entry, *execution, lanes_.work);
        } catch (const DeviceFailure&) {
            refuse_full_memory(entry);
            throw;
        }
    }
    timing_.enqueue_ms = milliseconds<float>(Clock::now() - begin);
}

// TensorRT's own words do not tell why an output found no room.
void Slot::refuse_full_memory(const Prepared& entry) {
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        if (entry.output_data_dependent[o] && memory_.io().allocator(o).ran_out_of_memory()) {
            throw OutOfMemory("The GPU is out of memory: output '" + plan_->outputs()[o].name +
                              "', whose size depends on the data, did not fit.");
        }
    }
}

// TensorRT reports these shapes before enqueueV3 returns.
void Slot::read_data_dependent_shapes(const Call& call, const Prepared& entry) {
    IoBuffers& io = memory_.io();
    const HostOutputs& to_host = memory_.to_host();
    output_shapes_ = entry.output_shapes;
    for (std::size_t o = 0; o < io.outputs.size(); ++o) {
        if (!entry.output_data_dependent[o]) {
            continue;
        }
        output_shapes_[o] = io.allocator(o).shape();
        to_host.check_room(call, o, output_shapes_[o]);
        // Neither is bound to the context, so no graph or binding goes stale.
        memory_grew_ = memory_grew_ || io.allocator(o).grew();
        if (to_host.wanted(call, o) && io.outputs[o].host.reserve(to_host.bytes(call, o, output_shapes_[o]))) {
            memory_grew_ = true;
        }
    }
}

// Where the call is under way with its own context; on a stream on which nothing else is. A failure costs the graph,
// not the call.
void Slot::capture(const Call& call, const Prepared& entry, Binding& binding) {
    const Timing measured = timing_;
    try {
        binding.graph = Graph::capture(lanes_.capture.get(), [&] {
            if (entry.fused) {
                fused_body(call, entry, *binding.own, lanes_.capture.get(), true);
            } else {
                compute(call, entry, *binding.own, lanes_.capture.get());
            }
        });
        publish();
    } catch (const Error& problem) {
        binding.capture_failed = true;
        publish(std::string{"capture failed: "} + problem.what());
    }
    timing_ = measured;
}

const std::vector<Shape>& Slot::shapes_of(const Prepared& entry) const noexcept {
    return entry.data_dependent ? output_shapes_ : entry.output_shapes;
}

void Slot::collect_outputs(const Call& call, const Prepared& entry) {
    const HostOutputs& to_host = memory_.to_host();
    const bool says_nothing = !call.to_host && call.at.empty() && !entry.data_dependent;
    const bool is_told = outputs_told_ && says_nothing && told_generation_ == memory_.generation();
    const std::vector<Shape>& shapes = shapes_of(entry);
    for (std::size_t o = 0; !is_told && o < plan_->outputs().size(); ++o) {
        Output& output = memory_.outputs[o];
        output.tensor = &plan_->outputs()[o];
        if (const auto index = to_host.index(call, o)) {
            Slice slice = slice_at(*output.tensor, shapes[o], *index);
            output.shape = std::move(slice.shape);
            output.bytes = slice.bytes();
        } else {
            output.shape = shapes[o];
            output.bytes =
                entry.output_data_dependent[o] ? byte_size(*output.tensor, output.shape) : entry.output_bytes[o];
        }
        output.on_host = output.tensor->on_host || to_host.wanted(call, o);
        output.host = memory_.io().outputs[o].host.block();
    }
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        if (!call.to_device || (*call.to_device)[o]) { // else it has none
            memory_.outputs[o].device = memory_.output_block(call, o);
        }
    }
    outputs_told_ = says_nothing;
    told_generation_ = memory_.generation();
}

SlotStatus Slot::status() const {
    const std::scoped_lock lock{status_mutex_};
    SlotStatus copy = status_;
    transfers_.count(copy);
    return copy;
}

void Slot::publish(const std::string& fallback) {
    MemoryUse use;
    use.device_scratch = planner_.scratch_bytes();
    memory_.io().add_to(use);
    use.device_state = memory_.state().device_bytes();
    transfers_.add_to(use);
    const ContextCache& contexts = planner_.contexts();
    const std::scoped_lock lock{status_mutex_};
    status_.memory = use;
    status_.graphs = contexts.graphs();
    if (!fallback.empty()) {
        status_.graph_fallback = fallback;
    } else if (contexts.profiles_are_exclusive() && status_.graph_fallback.empty()) {
        status_.graph_fallback = "the engine allows one context per profile, so only the last shape keeps its graph";
    }
    published_generation_ = memory_.generation();
    memory_grew_ = false;
}

// Leaves nothing running and nothing half set up. Errors here are those that are being reported already.
void Slot::abandon() noexcept {
    in_flight_ = false;
    left_on_.reset();
    published_generation_ = 0; // the graphs are gone: tell at the next call
    lanes_.drain();
    lanes_.work = lanes_.compute.get();
    static_cast<void>(cudaGetLastError());
    memory_.state().undo();
    gate_.reset();
    planner_.forget();
}

} // namespace trtw
