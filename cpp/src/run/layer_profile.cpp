#include "trtw/bench.hpp"

#include "device/scope.hpp"
#include "run/bench_stream.hpp"

#include <exception>

namespace trtw {

namespace {

/// Collects one iteration after the other: TensorRT reports every layer once an iteration, in the same order.
class Collector {
public:
    void add(const char* name, float milliseconds) noexcept {
        try {
            if (next_ == layers_.size()) {
                layers_.push_back({name, {}});
            }
            layers_[next_++].milliseconds.push_back(milliseconds);
        } catch (const std::exception&) {
            failed_ = true;
        }
    }

    void begin_iteration() noexcept { next_ = 0; }
    void clear() noexcept { layers_.clear(); }
    [[nodiscard]] bool failed() const noexcept { return failed_; }
    [[nodiscard]] std::vector<LayerTime>& layers() noexcept { return layers_; }

private:
    std::vector<LayerTime> layers_;
    std::size_t next_ = 0;
    bool failed_ = false;
};

} // namespace

std::vector<LayerTime> profile_layers(const std::shared_ptr<const Plan>& plan, const std::vector<Input>& inputs,
                                      int iterations, std::optional<int> profile,
                                      const std::function<void()>& while_waiting) {
    if (iterations < 1) {
        throw UsageProblem("A layer profile needs at least 1 iteration; got " + std::to_string(iterations) + ".");
    }
    const DeviceScope scope{plan->device()};
    const CallGate::Call running{plan->gate()};
    Collector collector; // outlives the context that reports to it
    BenchOptions options;
    options.cuda_graph = false;
    options.profile = profile;
    BenchStream stream{plan, inputs, options, 0};
    stream.report_layers([&](const char* name, float milliseconds) { collector.add(name, milliseconds); });
    stream.run_once();
    collector.clear();
    for (int i = 0; i < iterations; ++i) {
        collector.begin_iteration();
        stream.run_once();
        if (while_waiting) {
            while_waiting();
        }
    }
    if (collector.layers().empty() || collector.failed()) {
        throw UsageProblem("TensorRT reported no layer times: the engine was built with profiling verbosity 'none'. "
                           "Build it with 'layer_names_only' or 'detailed'.");
    }
    return std::move(collector.layers());
}

} // namespace trtw
