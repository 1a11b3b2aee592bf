#include "trtw/bench.hpp"

#include "device/copy_pool.hpp"
#include "device/scope.hpp"
#include "device/status.hpp"
#include "run/bench_stream.hpp"
#include "trtw/runner.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>

namespace trtw {

namespace {

void check_options(const BenchOptions& options) {
    if (options.iterations < 1 || !(options.duration_s >= 0.0) || !(options.warmup_ms >= 0.0) || options.streams < 1 ||
        options.streams > 64 || options.depth < 1 || options.depth > 16) {
        throw UsageProblem("A bench needs at least 1 iteration, no negative duration or warm-up, 1 to 64 streams and "
                           "a depth of 1 to 16.");
    }
}

// The range that a profiler records.
class ProfilerRange {
public:
    explicit ProfilerRange(bool enabled) : enabled_{enabled} {
        if (enabled_) {
            profiler_start();
        }
    }
    ~ProfilerRange() {
        if (enabled_) {
            try {
                profiler_stop();
            } catch (const Error&) { // NOLINT(bugprone-empty-catch): an error is on its way already
            }
        }
    }
    ProfilerRange(const ProfilerRange&) = delete;
    ProfilerRange& operator=(const ProfilerRange&) = delete;

private:
    bool enabled_;
};

// Calls something ten times a second, as far as it is called itself.
class Beat {
public:
    explicit Beat(std::function<void()> action) : action_{std::move(action)} {}
    void operator()() {
        if (action_ && Clock::now() >= next_) {
            action_();
            next_ = Clock::now() + std::chrono::milliseconds{100};
        }
    }

private:
    std::function<void()> action_;
    Clock::time_point next_ = Clock::now();
};

using Streams = std::vector<BenchStream*>;

// trtexec's loop over the streams of one host thread.
void measure(const Streams& streams, const Event& start, const BenchOptions& options, std::vector<Sample>& samples,
             Beat beat) {
    const double total_ms = options.warmup_ms + options.duration_s * 1000.0;
    double elapsed_ms = 0.0;
    int warmup = 0;
    for (int i = 0; i < options.iterations + warmup || elapsed_ms < total_ms; ++i) {
        beat();
        for (BenchStream* stream : streams) {
            stream->query();
        }
        for (BenchStream* stream : streams) {
            elapsed_ms = std::max(elapsed_ms, stream->collect(start, samples));
        }
        if (elapsed_ms < options.warmup_ms && elapsed_ms > 0.0) {
            ++warmup; // whole iterations of the warm-up do not count as iterations
        }
    }
    for (BenchStream* stream : streams) {
        stream->collect_all(start, samples);
    }
}

void measure_with_threads(const Streams& streams, const Event& start, const BenchOptions& options,
                          std::vector<std::vector<Sample>>& samples, int device, Beat beat) {
    std::vector<std::thread> workers;
    std::vector<std::exception_ptr> failures(streams.size() + 1);
    std::atomic<bool> is_over = false;
    std::atomic<std::size_t> running = streams.size();
    const auto look = [&] {
        if (is_over) {
            throw Cancelled("The measurement was cancelled.");
        }
    };
    for (std::size_t s = 0; s < streams.size(); ++s) {
        workers.emplace_back([&, s] {
            try {
                const DeviceScope scope{device};
                measure({streams[s]}, start, options, samples[s], Beat{look});
            } catch (...) {
                failures[s + 1] = std::current_exception();
            }
            --running;
        });
    }
    while (running > 0 && !is_over) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
        try {
            beat();
        } catch (...) {
            failures[0] = std::current_exception();
            is_over = true;
        }
    }
    for (std::thread& worker : workers) {
        worker.join();
    }
    for (const std::exception_ptr& failure : failures) {
        if (failure) {
            std::rethrow_exception(failure);
        }
    }
}

void add_walls(BenchResult& result) {
    if (result.samples.empty()) {
        return;
    }
    double device_end = 0.0;
    double host_begin = result.samples.front().host_start_ms;
    double host_end = 0.0;
    for (const Sample& sample : result.samples) {
        device_end = std::max(device_end, sample.end_ms);
        host_begin = std::min(host_begin, sample.host_start_ms);
        host_end = std::max(host_end, sample.host_start_ms + sample.end_to_end_ms);
    }
    result.wall_ms = device_end - result.samples.front().start_ms;
    result.host_wall_ms = host_end - host_begin;
}

// Leaves out the queries that began in the warm-up and sorts the rest by start.
void drop_warmup(BenchResult& result, double warmup_ms) {
    std::sort(result.samples.begin(), result.samples.end(),
              [](const Sample& a, const Sample& b) { return a.start_ms < b.start_ms; });
    const auto first = std::find_if(result.samples.begin(), result.samples.end(),
                                    [&](const Sample& sample) { return sample.compute_start_ms >= warmup_ms; });
    result.warmup_queries = static_cast<int>(first - result.samples.begin());
    result.samples.erase(result.samples.begin(), first);
    add_walls(result);
}

} // namespace

BenchResult bench(const std::shared_ptr<const Plan>& plan, const std::vector<Input>& inputs,
                  const BenchOptions& options, const std::function<void()>& while_waiting) {
    check_options(options);
    const DeviceScope scope{plan->device()};
    const CallGate::Call running{plan->gate()};
    std::vector<std::unique_ptr<BenchStream>> owned;
    Streams streams;
    for (int number = 0; number < options.streams; ++number) {
        owned.push_back(std::make_unique<BenchStream>(plan, inputs, options, number));
        streams.push_back(owned.back().get());
    }
    const Event start{EventKind::timing, options.spin ? Wait::spin : Wait::block};
    const Stream main{StreamUse::copy}; // for the clock alone
    BenchResult result;
    {
        const ProfilerRange range{options.profiler};
        start.record(main.get());
        const Clock::time_point host_start = Clock::now();
        for (BenchStream* stream : streams) {
            stream->wait_for(start, host_start);
        }
        std::vector<std::vector<Sample>> samples(streams.size());
        if (options.threads) {
            measure_with_threads(streams, start, options, samples, plan->device(), Beat{while_waiting});
        } else {
            measure(streams, start, options, samples.front(), Beat{while_waiting});
        }
        for (const std::vector<Sample>& part : samples) {
            result.samples.insert(result.samples.end(), part.begin(), part.end());
        }
    }
    result.graph = streams.front()->has_graph();
    result.graph_fallback = streams.front()->graph_fallback();
    drop_warmup(result, options.warmup_ms);
    return result;
}

BenchResult bench_latency(Runner& runner, const Call& call, const BenchOptions& options,
                          const std::function<void()>& while_waiting) {
    check_options(options);
    Beat beat{while_waiting};
    std::vector<std::vector<std::byte>> results(runner.plan().outputs().size());
    Call timed = call;
    timed.timing = true;
    BenchResult result;
    const Clock::time_point start = Clock::now();
    double elapsed_ms = 0.0;
    const auto query = [&] {
        beat();
        const Clock::time_point begin = Clock::now();
        Sample sample;
        {
            const Runner::Finished finished = runner.run(timed);
            for (std::size_t o = 0; o < results.size(); ++o) {
                const Output& output = finished.outputs()[o];
                results[o].resize(output.bytes);
                if (output.on_host) {
                    copy_memory(results[o].data(), output.host->data(), output.bytes);
                }
            }
            const Timing& timing = finished.timing();
            sample.enqueue_ms = static_cast<double>(timing.enqueue_ms);
            sample.h2d_ms = static_cast<double>(timing.h2d_ms);
            sample.compute_ms = static_cast<double>(timing.compute_ms);
            sample.d2h_ms = static_cast<double>(timing.d2h_ms);
        }
        const Clock::time_point end = Clock::now();
        sample.latency_ms = sample.h2d_ms + sample.compute_ms + sample.d2h_ms;
        sample.host_start_ms = sample.start_ms = sample.compute_start_ms = milliseconds<double>(begin - start);
        sample.end_to_end_ms = milliseconds<double>(end - begin);
        sample.end_ms = elapsed_ms = milliseconds<double>(end - start);
        return sample;
    };
    // Three calls at least: the first two prepare and capture.
    for (int i = 0; i < 3 || elapsed_ms < options.warmup_ms; ++i) {
        static_cast<void>(query());
        ++result.warmup_queries;
    }
    const double warm_ms = elapsed_ms;
    const ProfilerRange range{options.profiler};
    for (int i = 0; i < options.iterations || elapsed_ms - warm_ms < options.duration_s * 1000.0; ++i) {
        result.samples.push_back(query());
    }
    add_walls(result);
    const SlotStatus status = runner.status();
    result.graph = status.graphs > 0;
    result.graph_fallback = runner.options().cuda_graph ? status.graph_fallback : "";
    return result;
}

} // namespace trtw
