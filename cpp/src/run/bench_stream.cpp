#include "run/bench_stream.hpp"

#include "device/check.hpp"
#include "run/channels_last.hpp"
#include "run/host_array.hpp"

#include <algorithm>
#include <cstring>

namespace trtw {

BenchStream::InFlight::InFlight(Wait wait)
    : input_begin{EventKind::timing, wait}, input_end{EventKind::timing, wait}, compute_begin{EventKind::timing, wait},
      compute_end{EventKind::timing, wait}, output_begin{EventKind::timing, wait}, output_end{EventKind::timing, wait} {
}

BenchStream::BenchStream(std::shared_ptr<const Plan> plan, const std::vector<Input>& inputs,
                         const BenchOptions& options, int number)
    : plan_{std::move(plan)}, options_{options}, number_{number}, io_{*plan_} {
    scratch_.reserve(plan_->device_memory_bytes());
    for (int place = 0; place < options_.depth; ++place) {
        in_flight_.emplace_back(options_.spin ? Wait::spin : Wait::block);
    }
    allocate(inputs);
    const int profile = choose_profile(plan_->inputs(), call_shapes(), options_.profile);
    execution_ = Execution::create(plan_, profile, scratch_.data(), compute_.get());
    if (!execution_) {
        throw UsageProblem("The engine allows one context per profile, so it can be measured with one inference stream "
                           "only. Build it with profile sharing for more.");
    }
    bind();
    warm_and_capture();
}

BenchStream::~BenchStream() {
    // After an error queries may be in flight still.
    for (const Stream* stream : {&input_, &compute_, &output_}) {
        static_cast<void>(cudaStreamSynchronize(stream->get()));
    }
}

void BenchStream::allocate(const std::vector<Input>& inputs) {
    check_tensors(plan_->tensors());
    check_inputs(plan_->inputs(), inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const TensorInfo& tensor = plan_->inputs()[i];
        input_shapes_.push_back(inputs[i].shape);
        const std::size_t bytes = bound_bytes(tensor, inputs[i].shape);
        io_.inputs[i].host.reserve(bytes);
        io_.inputs[i].device.reserve(bytes);
        std::vector<std::byte> apart(tensor.is_linear ? 0 : byte_size(tensor, inputs[i].shape));
        void* target = tensor.is_linear ? io_.inputs[i].host.data() : apart.data();
        if (inputs[i].strides.empty()) {
            std::memcpy(target, inputs[i].data, byte_size(tensor, inputs[i].shape));
        } else {
            copy_strided(target, inputs[i].data, inputs[i].shape, inputs[i].strides, tensor.bits / 8);
        }
        if (!tensor.is_linear) {
            pack_on_host(tensor, inputs[i].shape, target, io_.inputs[i].host.data());
        }
    }
}

CallShapes BenchStream::call_shapes() const {
    CallShapes call{input_shapes_, std::vector<Shape>(input_shapes_.size())};
    for (std::size_t i = 0; i < input_shapes_.size(); ++i) {
        if (plan_->inputs()[i].on_host) {
            call.values[i] = shape_values(plan_->inputs()[i], input_shapes_[i], io_.inputs[i].host.data());
        }
    }
    return call;
}

void BenchStream::bind() {
    for (std::size_t i = 0; i < input_shapes_.size(); ++i) {
        execution_->bind_input(i, plan_->inputs()[i].on_host ? io_.inputs[i].host.data() : io_.inputs[i].device.data());
    }
    execution_->set_shapes(input_shapes_);
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        output_shapes_.push_back(execution_->output_shape(o));
        if (!output_shapes_.back()) {
            execution_->bind_allocator(o, io_.allocator(o));
            continue;
        }
        const std::size_t bytes = byte_size(plan_->outputs()[o], *output_shapes_.back());
        io_.outputs[o].host.reserve(bytes);
        output_buffer(o).reserve(bytes);
        execution_->bind_output(o, plan_->outputs()[o].on_host ? io_.outputs[o].host.data() : output_buffer(o).data());
    }
}

// An aliased output is written in its input's memory.
DeviceBuffer& BenchStream::output_buffer(std::size_t output) {
    const auto aliased = plan_->aliased_input(output);
    return aliased ? io_.inputs[*aliased].device : io_.output(output);
}

void BenchStream::warm_and_capture() {
    copy_in(input_.get());
    input_.synchronize();
    execution_->enqueue(compute_.get());
    compute_.synchronize();
    if (!options_.cuda_graph) {
        return;
    }
    if (std::any_of(output_shapes_.begin(), output_shapes_.end(), [](const auto& shape) { return !shape; })) {
        graph_fallback_ = "an output's shape depends on the data, so a captured graph could not hold it";
        return;
    }
    if (plan_->streams_weights()) {
        graph_fallback_ = no_graph_of_streamed_weights;
        return;
    }
    try {
        graph_ = Graph::capture(compute_.get(), [&] { execution_->enqueue(compute_.get()); });
    } catch (const Error& problem) {
        graph_fallback_ = std::string{"capture failed: "} + problem.what();
    }
}

void BenchStream::wait_for(const Event& start, Clock::time_point host_start) {
    host_start_ = host_start;
    start.make_wait(input_.get());
    start.make_wait(compute_.get());
    start.make_wait(output_.get());
}

void BenchStream::copy_in(cudaStream_t stream) {
    for (std::size_t i = 0; i < io_.inputs.size(); ++i) {
        const TensorInfo& tensor = plan_->inputs()[i];
        const std::size_t bytes = bound_bytes(tensor, input_shapes_[i]);
        if (!tensor.on_host && bytes > 0) {
            TRTW_CUDA(cudaMemcpyAsync(io_.inputs[i].device.data(), io_.inputs[i].host.data(), bytes,
                                      cudaMemcpyHostToDevice, stream));
        }
    }
}

void BenchStream::copy_out(cudaStream_t stream) {
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        const TensorInfo& tensor = plan_->outputs()[o];
        PinnedBuffer& host = io_.outputs[o].host;
        const std::size_t bytes = byte_size(tensor, output_shapes_[o] ? *output_shapes_[o] : io_.allocator(o).shape());
        if (tensor.on_host || bytes == 0) {
            continue;
        }
        host.reserve(bytes);
        TRTW_CUDA(cudaMemcpyAsync(host.data(), output_buffer(o).data(), bytes, cudaMemcpyDeviceToHost, stream));
    }
}

void BenchStream::launch() {
    if (graph_) {
        graph_.launch(compute_.get());
    } else {
        execution_->enqueue(compute_.get());
    }
}

void BenchStream::run_once() {
    execution_->enqueue(compute_.get());
    compute_.synchronize();
}

void BenchStream::query() {
    InFlight& query = in_flight_[next_];
    if (query.active) {
        return;
    }
    query.query_begin = Clock::now();
    if (options_.transfers) {
        query.input_begin.record(input_.get());
        copy_in(input_.get());
        query.input_end.record(input_.get());
        query.input_end.make_wait(compute_.get());
    }
    query.compute_begin.record(compute_.get());
    query.enqueue_begin = Clock::now();
    launch();
    query.enqueue_end = Clock::now();
    query.compute_end.record(compute_.get());
    if (options_.transfers) {
        query.compute_end.make_wait(output_.get());
        query.output_begin.record(output_.get());
        copy_out(output_.get());
        query.output_end.record(output_.get());
    }
    query.active = true;
    next_ = (next_ + 1) % in_flight_.size();
}

double BenchStream::finish(InFlight& query, const Event& start, std::vector<Sample>& samples) {
    const Event& last = options_.transfers ? query.output_end : query.compute_end;
    last.synchronize();
    const Clock::time_point seen = Clock::now();
    query.active = false;
    Sample sample;
    sample.stream = number_;
    sample.enqueue_ms = milliseconds<double>(query.enqueue_end - query.enqueue_begin);
    sample.host_start_ms = milliseconds<double>(query.query_begin - host_start_);
    sample.end_to_end_ms = milliseconds<double>(seen - query.query_begin);
    sample.compute_ms = static_cast<double>(query.compute_end.milliseconds_since(query.compute_begin));
    const double compute_start = static_cast<double>(query.compute_begin.milliseconds_since(start));
    sample.start_ms = compute_start;
    if (options_.transfers) {
        sample.h2d_ms = static_cast<double>(query.input_end.milliseconds_since(query.input_begin));
        sample.d2h_ms = static_cast<double>(query.output_end.milliseconds_since(query.output_begin));
        sample.start_ms = static_cast<double>(query.input_begin.milliseconds_since(start));
    }
    sample.latency_ms = sample.h2d_ms + sample.compute_ms + sample.d2h_ms;
    sample.end_ms = static_cast<double>(last.milliseconds_since(start));
    sample.compute_start_ms = compute_start;
    samples.push_back(sample);
    return compute_start;
}

double BenchStream::collect(const Event& start, std::vector<Sample>& samples) {
    InFlight& oldest = in_flight_[next_];
    return oldest.active ? finish(oldest, start, samples) : 0.0;
}

void BenchStream::collect_all(const Event& start, std::vector<Sample>& samples) {
    for (std::size_t place = 0; place < in_flight_.size(); ++place) {
        InFlight& query = in_flight_[(next_ + place) % in_flight_.size()];
        if (query.active) {
            finish(query, start, samples);
        }
    }
}

} // namespace trtw
