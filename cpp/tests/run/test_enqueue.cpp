// Calls on streams of the caller's, for which the host does not wait.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>

using namespace std::chrono_literals;
using fake::call_of;
using fake::host;
using fake::state;
using fake::Values;
using fake::values_on_device;
using trtw::Call;
using trtw::DeviceMemory;
using trtw::Enqueued;
using trtw::Input;
using trtw::Runner;
using trtw::RunnerOptions;
using trtw::Source;
using trtw::Stream;
using trtw::UsageProblem;

namespace {

// An array on the device, where TensorRT takes it.
class OnDevice {
public:
    explicit OnDevice(Values values) : size_{values.size()}, block_{values.size() * sizeof(float)} { set(values); }
    void set(const Values& values) { std::ranges::copy(values, static_cast<float*>(block_.data())); }
    [[nodiscard]] Input input(std::size_t first = 0) const {
        Input input;
        input.source = Source::device;
        input.data = static_cast<const float*>(block_.data()) + first;
        input.shape = {static_cast<std::int64_t>(size_ - first)};
        return input;
    }

private:
    std::size_t size_;
    DeviceMemory block_;
};

Call on_device(std::vector<Input> inputs, std::size_t outputs = 1) {
    Call call = call_of(std::move(inputs));
    call.to_host.emplace(outputs, false);
    return call;
}

// Whether an action is over within a while.
class InThread {
public:
    template <class Action>
    explicit InThread(Action action)
        : thread_{[this, action] {
              action();
              over_ = true;
          }} {}
    ~InThread() { thread_.join(); }
    InThread(const InThread&) = delete;
    InThread& operator=(const InThread&) = delete;
    [[nodiscard]] bool is_over(std::chrono::milliseconds within) const {
        const auto end = std::chrono::steady_clock::now() + within;
        while (!over_ && std::chrono::steady_clock::now() < end) {
            std::this_thread::sleep_for(1ms);
        }
        return over_;
    }

private:
    std::atomic<bool> over_ = false;
    std::thread thread_;
};

} // namespace

TEST_CASE("a call on a stream comes after what is there, and is not waited for") {
    for (const bool graph : {true, false}) {
        for (const bool fused : {true, false}) {
            RunnerOptions options;
            options.cuda_graph = graph;
            options.graph_includes_transfers = fused;
            Runner runner{fake::twice(), options};
            const Stream stream;
            OnDevice x{{0, 0}};
            for (float value = 1; value < 6; ++value) {
                fake::hold(stream.get());
                fake::enqueue(stream.get(), [&, value] { x.set({value, value + 1}); });
                const Enqueued found = runner.enqueue(on_device({x.input()}), stream.get());
                CHECK_FALSE(found.done->is_done());
                fake::release(stream.get());
                CHECK(found.done->is_done());
                CHECK(values_on_device(found) == Values{2 * value + 1, 2 * value + 3});
                CHECK_FALSE(found.outputs[0].on_host);
            }
        }
    }
}

TEST_CASE("calls on one stream replay one graph on that stream") {
    Runner runner{fake::twice(), {}};
    const Stream stream;
    const OnDevice x{{1, 2}};
    fake::hold(stream.get()); // nothing waits for the device, the capture neither
    for (int i = 0; i < 3; ++i) {
        runner.enqueue(on_device({x.input()}), stream.get());
    }
    const auto graphs = fake::launched_graphs();
    const auto waits = fake::waits();
    for (int i = 0; i < 10; ++i) {
        runner.enqueue(on_device({x.input()}), stream.get());
    }
    CHECK(fake::launched_graphs() - graphs == 10);
    CHECK(fake::waits() == waits);
    fake::release(stream.get());
    CHECK(runner.graph_status() == "on: 1 graph captured");
}

TEST_CASE("what uses the slot next comes after a call that is under way") {
    Runner runner{fake::twice(), {}};
    const Stream stream;
    const Stream other;
    OnDevice x{{1}};
    const OnDevice y{{10}};
    const Values z{100};
    for (int i = 0; i < 4; ++i) {
        fake::hold(stream.get());
        const Enqueued first = runner.enqueue(on_device({x.input()}), stream.get());
        const Enqueued second = runner.enqueue(on_device({y.input()}), other.get());
        CHECK_FALSE(second.done->is_done());
        {
            const InThread third{[&] { CHECK(fake::run(runner, {host(z)}) == Values{201}); }};
            CHECK_FALSE(third.is_over(20ms));
            fake::release(stream.get());
            CHECK(third.is_over(10s));
        }
        CHECK(values_on_device(first) == Values{3});
        CHECK(values_on_device(second) == Values{21});
    }
}

TEST_CASE("host arrays are not overwritten while a call that is under way reads them") {
    for (const bool fused : {true, false}) {
        RunnerOptions options;
        options.graph_includes_transfers = fused;
        Runner runner{fake::twice(), options};
        const Stream stream;
        const Values one{1};
        const Values two{2};
        fake::hold(stream.get());
        const Enqueued first = runner.enqueue(on_device({host(one)}), stream.get());
        std::optional<Enqueued> second;
        {
            const InThread next{[&] { second = runner.enqueue(on_device({host(two)}), stream.get()); }};
            CHECK_FALSE(next.is_over(20ms));
            fake::release(stream.get());
        }
        CHECK(values_on_device(first) == Values{3});
        CHECK(values_on_device(*second) == Values{5});
    }
}

TEST_CASE("state goes on from call to call on a stream, and off it") {
    RunnerOptions options;
    options.state = {{"h_next", "h"}};
    Runner runner{fake::recurrent(4), options};
    const Stream stream;
    const OnDevice ones{Values(4, 1)};
    const Values host_ones(4, 1);
    float expected = 1;
    for (int i = 0; i < 6; ++i, expected += 3) {
        fake::hold(stream.get());
        const Enqueued first = runner.enqueue(on_device({ones.input(), state()}, 2), stream.get());
        const Enqueued second = runner.enqueue(on_device({ones.input(), state()}, 2), stream.get());
        fake::release(stream.get());
        CHECK(values_on_device(first) == Values(4, expected + 1));
        CHECK(values_on_device(second) == Values(4, expected + 2));
        CHECK(fake::run(runner, {host(host_ones), state()}) == Values(4, expected + 3));
    }
}

TEST_CASE("on a default stream TensorRT is given another one, in the order of the default stream") {
    Runner runner{fake::twice(), {}};
    OnDevice x{{0}};
    cudaStream_t legacy = cudaStreamLegacy;
    const auto graphs = fake::launched_graphs();
    for (float value = 1; value < 6; ++value) {
        fake::hold(legacy);
        fake::enqueue(legacy, [&, value] { x.set({value}); });
        const Enqueued found = runner.enqueue(on_device({x.input()}), legacy);
        Values seen{0};
        fake::enqueue(legacy, [&] { seen = values_on_device(found.outputs[0]); });
        fake::release(legacy);
        CHECK(seen == Values{2 * value + 1});
    }
    CHECK(fake::launched_graphs() - graphs == 3);
}

TEST_CASE("a stream of the caller's may go before the runner") {
    Runner runner{fake::twice(), {}};
    const OnDevice x{{1}};
    for (int i = 0; i < 4; ++i) {
        cudaStream_t stream = nullptr;
        cudaStreamCreateWithFlags(&stream, 0);
        const Enqueued found = runner.enqueue(on_device({x.input()}), stream);
        CHECK(values_on_device(found) == Values{3});
        cudaStreamDestroy(stream);
    }
}

TEST_CASE("a runner that goes waits for calls that are under way") {
    const Stream stream;
    const OnDevice x{{1}};
    auto runner = std::make_unique<Runner>(fake::twice(), RunnerOptions{});
    fake::hold(stream.get());
    const Enqueued found = runner->enqueue(on_device({x.input()}), stream.get());
    {
        const InThread end{[&] { runner.reset(); }};
        CHECK_FALSE(end.is_over(20ms));
        fake::release(stream.get());
        CHECK(end.is_over(10s));
    }
    CHECK(values_on_device(found) == Values{3}); // and its outputs outlive it
}

TEST_CASE("run on a stream of the caller's waits for its outputs on the host") {
    Runner runner{fake::twice(), {}};
    const Stream stream;
    OnDevice x{{0}};
    for (float value = 1; value < 5; ++value) {
        fake::hold(stream.get());
        fake::enqueue(stream.get(), [&, value] { x.set({value}); });
        const InThread release{[&] {
            std::this_thread::sleep_for(5ms);
            fake::release(stream.get());
        }};
        const auto finished = runner.run(call_of({x.input()}), stream.get());
        CHECK(fake::values(finished.outputs()[0]) == Values{2 * value + 1});
    }
}

TEST_CASE("outputs on the host and calls that do not fit are refused, and the next call is right") {
    RunnerOptions options;
    options.state = {{"h_next", "h"}};
    Runner runner{fake::recurrent(4), options};
    const Stream stream;
    const OnDevice ones{Values(4, 1)};
    const OnDevice nine{Values(9, 1)};
    CHECK_THROWS_WITH_AS(runner.enqueue(call_of({ones.input(), state()}), stream.get()),
                         doctest::Contains("'y' goes to the host"), UsageProblem);
    CHECK_THROWS_WITH_AS(runner.enqueue(on_device({nine.input(), state()}, 2), stream.get()),
                         doctest::Contains("no profile"), UsageProblem);
    CHECK(values_on_device(runner.enqueue(on_device({ones.input(), state()}, 2), stream.get())) == Values(4, 2));
}

TEST_CASE("a refused call does not let the next one overwrite what others still read") {
    Runner runner{fake::twice(4), {}};
    const Stream stream;
    const Stream other;
    const Stream consumer;
    const OnDevice x{Values(4, 1)};
    const OnDevice nine{Values(9, 1)};
    Values seen{0};
    fake::hold(consumer.get());
    {
        const Enqueued lent = runner.enqueue(on_device({x.input()}), stream.get());
        const auto* from = static_cast<const float*>(lent.outputs[0].device->data());
        fake::enqueue(consumer.get(), [&, from] { seen[0] = *from; });
        lent.outputs[0].device->readers().add(0, consumer.get());
    }
    CHECK_THROWS_AS(runner.enqueue(on_device({nine.input()}), stream.get()), UsageProblem);
    const OnDevice fives{Values(4, 5)};
    const Enqueued next = runner.enqueue(on_device({fives.input()}), other.get());
    CHECK_FALSE(next.done->is_done());
    fake::release(consumer.get());
    CHECK(seen == Values{3});
    CHECK(values_on_device(next) == Values(4, 11));
}

TEST_CASE("calls of several threads on streams of their own") {
    for (const int slots : {1, 3}) {
        RunnerOptions options;
        options.slots = slots;
        Runner runner{fake::twice(4), options};
        std::atomic<int> wrong = 0;
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                const Stream stream;
                std::deque<Enqueued> kept;
                const OnDevice x{Values(4, static_cast<float>(t))};
                for (int i = 0; i < 50; ++i) {
                    kept.push_back(runner.enqueue(on_device({x.input()}), stream.get()));
                    if (kept.size() > 3) {
                        kept.front().done->synchronize();
                        wrong += values_on_device(kept.front().outputs[0]) == Values(4, static_cast<float>(2 * t + 1))
                                     ? 0
                                     : 1;
                        kept.pop_front();
                    }
                }
                stream.synchronize();
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        CHECK(wrong == 0);
    }
}

// ---- within a graph of the caller's -------------------------------------------------------------------

namespace {

class Captured {
public:
    explicit Captured(cudaGraph_t graph) { cudaGraphInstantiate(&executable_, graph, 0), cudaGraphDestroy(graph); }
    ~Captured() { cudaGraphExecDestroy(executable_); }
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;
    void launch(cudaStream_t stream) const { cudaGraphLaunch(executable_, stream); }

private:
    cudaGraphExec_t executable_ = nullptr;
};

template <class Action>
std::unique_ptr<Captured> captured(cudaStream_t stream, Action action) {
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
    cudaGraph_t graph = nullptr;
    try {
        action();
    } catch (...) {
        cudaStreamEndCapture(stream, &graph);
        cudaGraphDestroy(graph);
        throw;
    }
    cudaStreamEndCapture(stream, &graph);
    return std::make_unique<Captured>(graph);
}

} // namespace

TEST_CASE("a captured call is replayed with what its inputs are by then, beside other calls of the runner") {
    Runner runner{fake::twice(), {}};
    const Stream stream;
    OnDevice x{{1, 2}};
    const Values z{100};
    std::optional<Enqueued> found;
    const auto graph = captured(stream.get(), [&] { found = runner.enqueue(on_device({x.input()}), stream.get()); });
    CHECK(found->done == nullptr);
    for (float value = 1; value < 4; ++value) {
        x.set({value, 5});
        graph->launch(stream.get());
        CHECK(fake::run(runner, {host(z)}) == Values{201});
        stream.synchronize();
        CHECK(values_on_device(found->outputs[0]) == Values{2 * value + 1, 11});
    }
    CHECK(runner.status().memory.device_outputs > 0);
}

TEST_CASE("a captured call reads an array that lies badly from a copy that the graph makes") {
    Runner runner{fake::twice(), {}};
    const Stream stream;
    OnDevice x{{9, 1}};
    std::optional<Enqueued> found;
    const auto graph = captured(stream.get(), [&] { found = runner.enqueue(on_device({x.input(1)}), stream.get()); });
    x.set({9, 4});
    graph->launch(stream.get());
    stream.synchronize();
    CHECK(values_on_device(found->outputs[0]) == Values{9});
}

TEST_CASE("what a captured call needs goes after its graph, at the next capture") {
    Runner runner{fake::twice(), {}};
    const Stream stream;
    const OnDevice x{{1, 2}};
    const auto capture = [&] {
        return captured(stream.get(), [&] { runner.enqueue(on_device({x.input()}), stream.get()); });
    };
    auto graph = capture();
    const auto one = runner.status().memory;
    const auto other = capture();
    const auto two = runner.status().memory;
    CHECK(two.device_outputs > one.device_outputs);
    for (int i = 0; i < 10; ++i) {
        graph.reset();
        graph = capture();
        CHECK(runner.status().memory.device_outputs == two.device_outputs);
        CHECK(runner.status().memory.device_scratch == two.device_scratch);
    }
    graph->launch(stream.get());
    stream.synchronize();
}

TEST_CASE("what a graph cannot hold is refused") {
    const Stream stream;
    const Values x{1};
    const OnDevice there{{1}};
    const auto refused = [&](Runner& runner, Call call, const char* words) {
        CHECK_THROWS_WITH_AS(captured(stream.get(), [&] { runner.enqueue(call, stream.get()); }),
                             doctest::Contains(words), UsageProblem);
    };
    Runner plain{fake::twice(), {}};
    refused(plain, on_device({host(x)}), "not on the device");
    refused(plain, call_of({there.input()}), "goes to the host");
    CHECK_THROWS_WITH_AS(captured(stream.get(), [&] { plain.run(call_of({there.input()}), stream.get()); }),
                         doctest::Contains("captures a graph"), UsageProblem);
    RunnerOptions with_state;
    with_state.state = {{"h_next", "h"}};
    Runner stateful{fake::recurrent(1), with_state};
    refused(stateful, on_device({there.input(), state()}, 2), "runner with state");
    auto open = fake::twice();
    open->open_output = 0;
    Runner dependent{open, {}};
    refused(dependent, on_device({there.input()}), "depends on the data");
    auto streaming = fake::twice();
    streaming->streams_weights_ = true;
    Runner weights{streaming, {}};
    refused(weights, on_device({there.input()}), "streams weights");
    CHECK(fake::run(plain, {host(x)}) == Values{3});
}
