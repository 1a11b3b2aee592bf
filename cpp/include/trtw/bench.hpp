// Measures an engine: trtexec's method, and the true end-to-end time of single calls.
#pragma once

#include "trtw/plan.hpp"
#include "trtw/runner.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trtw {

/// trtexec's method (TensorRT's samples, sampleInference.cpp): every inference stream has a context and three CUDA
/// streams (input, compute, output); each query records six events; up to `depth` queries are in flight a stream, so
/// that the next input travels while the engine works. The loop runs for at least `iterations` queries a stream and
/// at least `duration_s` after a warm-up of `warmup_ms` of GPU time; queries that began in the warm-up are dropped.
/// The fields stand in bench_options.def.
struct BenchOptions {
#define TRTW_OPTION(name, value, doc, ...) __VA_ARGS__ name = value;
#include "trtw/bench_options.def"
#undef TRTW_OPTION
};

/// One query; times in milliseconds. Positions in time count from the start of the measurement.
struct Sample {
    double start_ms = 0;         ///< device clock: start of the input copy, of compute without transfers
    double compute_start_ms = 0; ///< device clock
    double end_ms = 0;           ///< device clock: end of the output copy, of compute without transfers
    double enqueue_ms = 0;       ///< host time of the launch
    double h2d_ms = 0;           ///< device clock, as are the next two
    double compute_ms = 0;
    double d2h_ms = 0;
    double latency_ms = 0;    ///< h2d + compute + d2h: trtexec's latency, which leaves out waiting in between
    double host_start_ms = 0; ///< host clock
    double end_to_end_ms = 0; ///< host clock from the start of the query until its result was seen
    int stream = 0;
};

struct BenchResult {
    std::vector<Sample> samples; ///< by start, the warm-up left out
    double wall_ms = 0;          ///< device clock, first start to last end, as trtexec's throughput takes it
    double host_wall_ms = 0;     ///< host clock over the same queries
    int warmup_queries = 0;
    bool graph = false;
    std::string graph_fallback; ///< why no graph was used though asked for; empty otherwise
};

/// `inputs` are row-major host arrays in the engine's order. Throws as Runner does.
/// `while_waiting` is called ten times a second; what it throws ends the measurement.
BenchResult bench(const std::shared_ptr<const Plan>& plan, const std::vector<Input>& inputs,
                  const BenchOptions& options, const std::function<void()>& while_waiting = {});

/// Single calls of a runner, one after the other: ordinary host memory in, ordinary host memory out. end_to_end_ms
/// includes both host copies; the other times are the runner's. Of BenchOptions it takes iterations, duration_s,
/// warmup_ms (of host time) and profiler; the rest is as the runner was made.
BenchResult bench_latency(Runner& runner, const Call& call, const BenchOptions& options,
                          const std::function<void()>& while_waiting = {});

/// Device time by layer, as TensorRT's profiler reports it.
struct LayerTime {
    std::string name;
    std::vector<float> milliseconds; ///< one value an iteration
};

/// Layers in execution order, over `iterations` runs after one to warm up, without a CUDA graph. Profiling puts
/// events between the layers, so that their sum exceeds the engine's own time.
/// Throws UsageProblem where the engine was built without profiling information, and as bench does.
std::vector<LayerTime> profile_layers(const std::shared_ptr<const Plan>& plan, const std::vector<Input>& inputs,
                                      int iterations, std::optional<int> profile,
                                      const std::function<void()>& while_waiting = {});

} // namespace trtw
