// One inference stream of the bench: a context, three CUDA streams, and events for each query in flight.
#pragma once

#include "device/graph.hpp"
#include "run/clock.hpp"
#include "run/execution.hpp"
#include "run/io_buffers.hpp"
#include "run/profile_choice.hpp"
#include "trtw/bench.hpp"
#include "trtw/detail/stream.hpp"

#include <utility>

namespace trtw {

class BenchStream {
public:
    BenchStream(std::shared_ptr<const Plan> plan, const std::vector<Input>& inputs, const BenchOptions& options,
                int number);
    ~BenchStream();
    BenchStream(const BenchStream&) = delete;
    BenchStream& operator=(const BenchStream&) = delete;

    /// Makes all work of this stream come after `start`, which is zero on the device's clock.
    void wait_for(const Event& start, Clock::time_point host_start);
    /// Starts a query, unless as many as `depth` are in flight already.
    void query();
    /// Waits for the oldest query if all places are taken; returns the time, in ms since `start`, at which that
    /// query's compute began, 0 where there was nothing to wait for.
    double collect(const Event& start, std::vector<Sample>& samples);
    /// Waits for every query in flight.
    void collect_all(const Event& start, std::vector<Sample>& samples);

    /// One run without transfers, waited for.
    void run_once();
    void report_layers(LayerReport report) { execution_->report_layers(std::move(report)); }

    [[nodiscard]] bool has_graph() const noexcept { return bool{graph_}; }
    [[nodiscard]] const std::string& graph_fallback() const noexcept { return graph_fallback_; }
    [[nodiscard]] cudaStream_t compute() const noexcept { return compute_.get(); }

private:
    struct InFlight {
        explicit InFlight(Wait wait);
        Event input_begin, input_end, compute_begin, compute_end, output_begin, output_end;
        Clock::time_point query_begin, enqueue_begin, enqueue_end;
        bool active = false;
    };

    void allocate(const std::vector<Input>& inputs);
    [[nodiscard]] CallShapes call_shapes() const;
    void bind();
    void warm_and_capture();
    void copy_in(cudaStream_t stream);
    void copy_out(cudaStream_t stream);
    void launch();
    [[nodiscard]] DeviceBuffer& output_buffer(std::size_t output);
    double finish(InFlight& query, const Event& start, std::vector<Sample>& samples);

    std::shared_ptr<const Plan> plan_;
    BenchOptions options_;
    int number_;
    Stream input_{StreamUse::copy};
    Stream compute_;
    Stream output_{StreamUse::copy};
    DeviceBuffer scratch_;
    IoBuffers io_;
    std::vector<Shape> input_shapes_;
    std::vector<std::optional<Shape>> output_shapes_; ///< nullopt: depends on the data
    std::unique_ptr<Execution> execution_;
    Graph graph_;
    std::string graph_fallback_;
    std::vector<InFlight> in_flight_;
    std::size_t next_ = 0;
    Clock::time_point host_start_;
};

} // namespace trtw
