// Runs a prepared call: moves inputs, launches, moves outputs, takes the time.
#include "run/slot.hpp"

#include "device/check.hpp"
#include "device/range.hpp"
#include "run/host_array.hpp"
#include "run/slice.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace trtw::engine {

namespace {

float milliseconds(std::chrono::steady_clock::duration duration) {
    return std::chrono::duration<float, std::milli>(duration).count();
}

device::EventKind kind_of(const RunnerOptions& options) {
    return options.timing ? device::EventKind::timing : device::EventKind::order;
}

std::vector<bool> default_outputs(const Plan& plan, const RunnerOptions& options, const StateStore& state) {
    std::vector<bool> to_host;
    for (std::size_t o = 0; o < plan.outputs().size(); ++o) {
        const std::string& name = plan.outputs()[o].name;
        to_host.push_back(options.outputs ? std::find(options.outputs->begin(), options.outputs->end(), name) !=
                                                options.outputs->end()
                                          : state.pair_of_output(o) < 0);
    }
    return to_host;
}

} // namespace

Slot::Slot(std::shared_ptr<const Plan> plan, const RunnerOptions& options)
    : plan_{std::move(plan)}, options_{options}, h2d_begin_{kind_of(options)}, h2d_end_{kind_of(options)},
      compute_begin_{kind_of(options)}, compute_end_{kind_of(options)}, d2h_begin_{kind_of(options)},
      d2h_end_{kind_of(options)},
      done_{device::EventKind::order, options.spin ? device::Wait::spin : device::Wait::block}, io_{*plan_},
      state_{*plan_, options.state}, contexts_{plan_, (scratch_.reserve(plan_->device_memory_bytes()), scratch_.data()),
                                               static_cast<std::size_t>(std::max(options.graph_cache, 1))},
      outputs_(plan_->outputs().size()) {
    default_to_host_ = default_outputs(*plan_, options_, state_);
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        aliased_.push_back(plan_->aliased_input(o));
    }
    if (!options_.cuda_graph) {
        status_.graph_fallback = "switched off";
    }
    publish();
}

Slot::~Slot() {
    abandon();
}

void Slot::launch(const Call& call) {
    const device::Range range{"submit"};
    begin_ = Clock::now();
    timing_ = {};
    gate_.emplace(plan_->gate());
    has_images_ = std::any_of(call.inputs.begin(), call.inputs.end(),
                              [](const Input& input) { return input.source == Source::images; });
    try {
        Prepared& entry = prepare(call);
        const bool may_capture = options_.cuda_graph && !entry.data_dependent && !entry.capture_failed;
        Execution* execution = nullptr;
        if (!entry.graph || entry.bound != generation_) {
            execution = &set_up(call, entry);
            if (may_capture && ++entry.uses >= 2 && !entry.own) {
                contexts_.promote(entry);
            }
        }
        fused_run_ = entry.fused;
        in_flight_ = true; // from here on the streams have work, whatever fails
        wait_for_producers(call);
        if (entry.fused) {
            run_fused(call, entry, execution);
        } else {
            run_split(call, entry, execution);
        }
        collect_outputs(call, entry);
        if (may_capture && entry.own && !entry.graph && entry.uses >= 2) {
            capture(call, entry);
        }
        if (!state_.empty()) {
            state_.advance(output_shapes_);
        }
        const bool untold = options_.cuda_graph && !entry.no_graph.empty() && status_.graph_fallback.empty();
        if (generation_ != published_generation_ || memory_grew_ || untold) {
            publish(options_.cuda_graph ? entry.no_graph : "");
        }
    } catch (const UsageProblem&) { // state and contexts are as they were, unless the call was on its way
        if (in_flight_) {
            abandon();
        }
        gate_.reset();
        throw;
    } catch (...) {
        abandon();
        throw;
    }
}

const std::vector<Output>& Slot::wait() {
    const device::Range range{"wait"};
    in_flight_ = false;
    try {
        done_.synchronize();
        if (options_.timing) {
            timing_.h2d_ms = (fused_run_ ? compute_begin_ : h2d_end_).milliseconds_since(h2d_begin_);
            timing_.compute_ms = compute_end_.milliseconds_since(compute_begin_);
            timing_.d2h_ms = d2h_end_.milliseconds_since(fused_run_ ? compute_end_ : d2h_begin_);
        }
    } catch (...) {
        abandon();
        throw;
    }
    gate_.reset();
    timing_.end_to_end_ms = milliseconds(Clock::now() - begin_);
    return outputs_;
}

void Slot::wait_for_producers(const Call& call) {
    for (const Input& input : call.inputs) {
        if (input.source == Source::device && input.producer) {
            produced_.record(*input.producer);
            compute_.wait(produced_);
        }
    }
}

void Slot::mark(const device::Event& event, cudaStream_t stream, bool capturing) const {
    if (!options_.timing) {
        return;
    }
    if (capturing) {
        event.record_external(stream);
    } else {
        event.record(stream);
    }
}

// Transfers, engine and transfers back on one stream; what a fused graph consists of.
void Slot::fused_body(const Call& call, const Prepared& entry, Execution* execution, bool capturing) {
    cudaStream_t stream = compute_.get();
    if (!has_images_) {
        mark(h2d_begin_, stream, capturing);
    }
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const bool from_host = call.inputs[i].source == Source::host && state_.pair_of_input(i) < 0;
        if (from_host && !plan_->inputs()[i].on_host && entry.input_bytes[i] > 0) {
            TRTW_CUDA(cudaMemcpyAsync(io_.inputs[i].device.data(), io_.inputs[i].host.data(), entry.input_bytes[i],
                                      cudaMemcpyHostToDevice, stream));
        }
    }
    mark(compute_begin_, stream, capturing);
    const Clock::time_point begin = Clock::now();
    execution->enqueue(stream);
    timing_.enqueue_ms = milliseconds(Clock::now() - begin);
    mark(compute_end_, stream, capturing);
    copy_outputs(call, entry, stream);
    mark(d2h_end_, stream, capturing);
}

void Slot::run_fused(const Call& call, Prepared& entry, Execution* execution) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const bool from_host = call.inputs[i].source == Source::host && state_.pair_of_input(i) < 0;
        if (from_host && !plan_->inputs()[i].on_host) {
            stage(call, i);
        }
    }
    if (has_images_) {
        mark(h2d_begin_, compute_.get(), false);
        letterbox(call, compute_.get());
    }
    if (entry.graph) {
        const Clock::time_point begin = Clock::now();
        entry.graph.launch(compute_.get());
        timing_.enqueue_ms = milliseconds(Clock::now() - begin);
    } else {
        fused_body(call, entry, execution, false);
    }
    done_.record(compute_.get());
}

void Slot::run_split(const Call& call, Prepared& entry, Execution* execution) {
    mark(h2d_begin_, input_.get(), false);
    if (has_images_) {
        letterbox(call, input_.get());
    }
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const bool from_host = call.inputs[i].source == Source::host && state_.pair_of_input(i) < 0;
        if (from_host && !plan_->inputs()[i].on_host) {
            copy_input(call, i, input_.get());
        }
    }
    h2d_end_.record(input_.get());
    compute_.wait(h2d_end_);
    mark(compute_begin_, compute_.get(), false);
    enqueue(entry, execution);
    compute_end_.record(compute_.get());
    if (entry.data_dependent) {
        read_data_dependent_shapes(call, entry);
    }
    output_.wait(compute_end_);
    mark(d2h_begin_, output_.get(), false);
    copy_outputs(call, entry, output_.get());
    mark(d2h_end_, output_.get(), false);
    done_.record(output_.get());
}

void Slot::enqueue(Prepared& entry, Execution* execution) {
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        if (entry.output_data_dependent[o]) {
            io_.allocator(o).begin_call();
        }
    }
    const Clock::time_point begin = Clock::now();
    if (entry.graph) {
        entry.graph.launch(compute_.get());
    } else {
        try {
            execution->enqueue(compute_.get());
        } catch (const DeviceFailure&) {
            refuse_full_memory(entry);
            throw;
        }
    }
    timing_.enqueue_ms = milliseconds(Clock::now() - begin);
}

// TensorRT's own words do not tell why an output found no room.
void Slot::refuse_full_memory(const Prepared& entry) const {
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        if (entry.output_data_dependent[o] && io_.allocator(o).ran_out_of_memory()) {
            throw OutOfMemory("The GPU is out of memory: output '" + plan_->outputs()[o].name +
                              "', whose size depends on the data, did not fit.");
        }
    }
}

// TensorRT reports these shapes before enqueueV3 returns.
void Slot::read_data_dependent_shapes(const Call& call, const Prepared& entry) {
    output_shapes_.resize(io_.outputs.size());
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        if (!entry.output_data_dependent[o]) {
            continue;
        }
        output_shapes_[o] = io_.allocator(o).shape();
        // Neither is bound to the context, so no graph or binding goes stale.
        memory_grew_ = memory_grew_ || io_.allocator(o).grew();
        if (wants_host(call, o) && io_.outputs[o].host.reserve(host_bytes(call, o, output_shapes_[o]))) {
            memory_grew_ = true;
        }
    }
}

// After the call has run once for real. A failure costs the graph, not the call.
void Slot::capture(const Call& call, Prepared& entry) {
    done_.synchronize();
    const Timing measured = timing_;
    try {
        entry.graph = device::Graph::capture(compute_.get(), [&] {
            if (entry.fused) {
                fused_body(call, entry, entry.own.get(), true);
            } else {
                entry.own->enqueue(compute_.get());
            }
        });
        publish();
    } catch (const Error& problem) {
        entry.capture_failed = true;
        publish(std::string{"capture failed: "} + problem.what());
    }
    timing_ = measured;
}

void Slot::collect_outputs(const Call& call, const Prepared& entry) {
    output_shapes_.resize(io_.outputs.size());
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        if (!entry.output_data_dependent[o]) {
            output_shapes_[o] = entry.output_shapes[o];
        }
        Output& output = outputs_[o];
        output.tensor = &plan_->outputs()[o];
        if (const auto index = host_index(call, o)) {
            Slice slice = slice_at(*output.tensor, output_shapes_[o], *index);
            output.shape = std::move(slice.shape);
            output.bytes = slice.bytes();
        } else {
            output.shape = output_shapes_[o];
            output.bytes = byte_size(*output.tensor, output.shape);
        }
        output.on_host = output.tensor->on_host || wants_host(call, o);
        output.host = io_.outputs[o].host.block();
        output.device = output_block(call, o);
    }
}

void Slot::reset_state(const std::vector<std::pair<std::size_t, Input>>& values) {
    for (const auto& [input, value] : values) {
        if (input >= plan_->inputs().size() || state_.pair_of_input(input) < 0) {
            throw UsageProblem("Input " + std::to_string(input) + " of the engine is no state of this runner.");
        }
        state_.check(input, value);
    }
    drop_outputs();
    for (const auto& [input, value] : values) {
        state_.make_room(input, value.shape);
    }
    state_.reset();
    try {
        for (const auto& [input, value] : values) {
            set_state(input, value);
        }
    } catch (...) {
        state_.reset();
        static_cast<void>(cudaStreamSynchronize(compute_.get())); // the values before it may still be copied
        throw;
    }
    TRTW_CUDA(cudaStreamSynchronize(compute_.get()));
}

std::shared_ptr<device::PinnedMemory> Slot::input_block(std::size_t input, std::size_t bytes) {
    generation_ += io_.inputs[input].host.reserve(bytes) ? 1 : 0;
    return io_.inputs[input].host.block();
}

SlotStatus Slot::status() const {
    const std::scoped_lock lock{status_mutex_};
    SlotStatus copy = status_;
    copy.strided_copies = strided_copies_;
    copy.in_place_inputs = in_place_inputs_;
    copy.page_locked_images = page_locked_images_;
    return copy;
}

void Slot::publish(const std::string& fallback) {
    MemoryUse use;
    use.device_scratch = scratch_.capacity();
    io_.add_to(use);
    use.device_state = state_.device_bytes();
#ifdef TRTW_WITH_KERNELS
    use.device_images = letterbox_.device_bytes();
    use.pinned_images = letterbox_.pinned_bytes();
#endif
    const std::scoped_lock lock{status_mutex_};
    status_.memory = use;
    status_.graphs = contexts_.graphs();
    if (!fallback.empty()) {
        status_.graph_fallback = fallback;
    } else if (contexts_.profiles_are_exclusive() && status_.graph_fallback.empty()) {
        status_.graph_fallback = "the engine allows one context a profile, so only the last shape keeps its graph";
    }
    published_generation_ = generation_;
    memory_grew_ = false;
}

// Leaves nothing running and nothing half set up. Errors here are those that are being reported already.
void Slot::abandon() noexcept {
    in_flight_ = false;
    last_ = nullptr;
    published_generation_ = 0; // the graphs are gone: tell at the next call
    for (const device::Stream* stream : {&input_, &compute_, &output_}) {
        static_cast<void>(cudaStreamSynchronize(stream->get()));
    }
    static_cast<void>(cudaGetLastError());
    gate_.reset();
    contexts_.clear();
    last_key_.clear();
}

} // namespace trtw::engine
