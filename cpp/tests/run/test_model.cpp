// Everything that a runner does, in random order on a device that lags, against a plain model.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>

using fake::Values;
using trtw::Call;
using trtw::DeviceMemory;
using trtw::Enqueued;
using trtw::Event;
using trtw::Input;
using trtw::Runner;
using trtw::RunnerOptions;
using trtw::Source;
using trtw::Stream;

namespace {

/// What somebody holds on the device, and the stream that writes it; none for what is there.
struct Held {
    std::shared_ptr<DeviceMemory> block;
    Values values;
    cudaStream_t writer = nullptr;
};

/// An input as it is given, its values, and what keeps it alive.
struct Given {
    Input input;
    Values values;
    std::shared_ptr<void> keep;
    std::shared_ptr<DeviceMemory> read;  ///< of a runner's output
    std::shared_ptr<DeviceMemory> block; ///< on the device, where it may be overwritten once it is read
};

struct Sent {
    std::optional<Runner::Ticket> ticket;
    std::array<Values, 2> expected;
    std::array<bool, 2> to_host{};
    std::vector<Given> given;
};

/// One thread's share of a runner's calls: y = x + h + 1, h_next = x + h.
class Player {
public:
    Player(Runner& runner, unsigned seed, bool alone) : runner_{runner}, random_{seed}, alone_{alone} {}
    ~Player() { finish(); }
    Player(const Player&) = delete;
    Player& operator=(const Player&) = delete;

    /// Returns what was wrong; empty where nothing was.
    std::string play(int steps) {
        for (int step = 0; step < steps && wrong_.empty(); ++step) {
            switch (draw(8)) {
            case 0:
            case 1:
            case 2:
                run();
                break;
            case 3:
                submit();
                break;
            case 4:
            case 5:
                enqueue();
                break;
            case 6:
                look_at_held();
                break;
            default:
                refused();
            }
        }
        finish();
        return wrong_;
    }

private:
    std::size_t draw(std::size_t count) { return random_() % count; }
    Values some(std::size_t size) {
        Values values(size);
        std::ranges::generate(values, [this] { return static_cast<float>(draw(100)); });
        return values;
    }
    cudaStream_t any_stream() { return streams_[draw(streams_.size())].get(); }
    void expect(const Values& found, const Values& expected, const char* what) {
        if (found != expected && wrong_.empty()) {
            wrong_ = std::string{what} + ": found";
            std::ranges::for_each(found, [this](float value) { wrong_ += " " + std::to_string(value); });
            wrong_ += ", right is";
            std::ranges::for_each(expected, [this](float value) { wrong_ += " " + std::to_string(value); });
        }
    }

    static void order(cudaStream_t before, cudaStream_t after) {
        const Event event;
        event.record(before);
        event.make_wait(after);
    }

    static void write(cudaStream_t stream, const std::shared_ptr<DeviceMemory>& block, const Values& values) {
        fake::enqueue(stream, [to = static_cast<float*>(block->data()), values] { std::ranges::copy(values, to); });
    }

    Given on_host(std::size_t size) {
        auto values = std::make_shared<Values>(some(size));
        Given given{fake::host(*values), *values, values, nullptr, nullptr};
        if (draw(3) == 0) { // every second value of an array
            auto apart = std::make_shared<Values>(2 * size);
            for (std::size_t i = 0; i < size; ++i) {
                (*apart)[2 * i] = (*values)[i];
            }
            given.input.data = apart->data();
            given.input.strides = {2 * sizeof(float)};
            given.keep = apart;
        }
        return given;
    }

    // Written by a stream that is still at it; `reader` is the stream that the call is put on.
    Given on_device(std::size_t size, std::optional<cudaStream_t> reader) {
        Given given;
        cudaStream_t writer = any_stream();
        if (!held_.empty() && draw(3) == 0) {
            const Held& one = held_[draw(held_.size())];
            given.read = one.block;
            given.input.data = one.block->data();
            given.values = one.values;
            writer = one.writer == nullptr ? writer : one.writer;
        } else {
            given.block = std::make_shared<DeviceMemory>(size * sizeof(float));
            kept_.push_back(given.block);
            given.values = some(size);
            given.input.data = given.block->data();
            write(writer, given.block, given.values);
        }
        given.input.source = Source::device;
        given.input.shape = {static_cast<std::int64_t>(given.values.size())};
        if (draw(2) == 0) {
            given.input.producer = writer;
        } else {
            order(writer, reader.value_or(runner_.intake())); // what __dlpack__(stream=...) does
        }
        return given;
    }

    // In an input's own page-locked buffer, or in the other one's.
    std::vector<Given> in_buffers(std::size_t size) {
        std::array<std::shared_ptr<trtw::PinnedMemory>, 2> blocks;
        for (std::size_t i = 0; i < 2; ++i) {
            blocks[i] = runner_.input_block(0, i, size * sizeof(float));
        }
        std::vector<Given> given(2);
        const bool crossed = draw(2) == 0;
        for (std::size_t i = 0; i < 2; ++i) {
            const auto& block = blocks[crossed ? 1 - i : i];
            given[i].values = some(size);
            std::ranges::copy(given[i].values, static_cast<float*>(block->data()));
            given[i].input.data = block->data();
            given[i].input.shape = {static_cast<std::int64_t>(size)};
            given[i].keep = block;
        }
        return given;
    }

    std::vector<Given> inputs(std::optional<cudaStream_t> reader) {
        const std::size_t size = 1 + draw(4);
        std::vector<Given> given;
        if (alone_ && sent_.empty() && !reader && draw(4) == 0) {
            return in_buffers(size);
        }
        given.push_back(draw(2) == 0 ? on_host(size) : on_device(size, reader));
        do { // of one length
            given.resize(1);
            given.push_back(draw(2) == 0 ? on_host(given[0].values.size()) : on_device(given[0].values.size(), reader));
        } while (given[0].values.size() != given[1].values.size());
        return given;
    }

    static std::array<Values, 2> right(const std::vector<Given>& given) {
        std::array<Values, 2> outputs{given[0].values, given[0].values};
        for (std::size_t i = 0; i < given[0].values.size(); ++i) {
            outputs[1][i] = given[0].values[i] + given[1].values[i];
            outputs[0][i] = outputs[1][i] + 1;
        }
        return outputs;
    }

    static Call call_of(const std::vector<Given>& given, const std::array<bool, 2>& to_host) {
        Call call = fake::call_of({given[0].input, given[1].input});
        call.to_host = {to_host[0], to_host[1]};
        return call;
    }

    void hold(const std::shared_ptr<DeviceMemory>& block, const Values& values, cudaStream_t writer) {
        held_.push_back({block, values, writer});
        if (held_.size() > 6) {
            let_go(draw(held_.size()));
        }
    }

    // Another stream reads it, and is waited for by whoever writes there next.
    void let_go(std::size_t index) {
        const Held one = held_[index];
        held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
        if (draw(2) == 0) {
            return;
        }
        cudaStream_t reader = any_stream();
        if (one.writer != nullptr) {
            order(one.writer, reader);
        }
        auto seen = std::make_shared<Values>(one.values.size(), -1.0F);
        fake::enqueue(reader, [seen, from = static_cast<const float*>(one.block->data())] {
            std::copy(from, from + seen->size(), seen->begin());
        });
        one.block->readers().add(0, reader);
        seen_.emplace_back(seen, one.values);
    }

    void take(const Runner::Finished& finished, const std::array<Values, 2>& expected,
              const std::array<bool, 2>& to_host) {
        for (std::size_t o = 0; o < 2; ++o) {
            const trtw::Output& output = finished.outputs()[o];
            if (to_host[o]) {
                expect(fake::values(output), expected[o], "an output on the host");
            } else {
                expect(fake::values_on_device(output), expected[o], "an output on the device");
                hold(output.device, expected[o], nullptr);
            }
        }
    }

    // The arrays of a call that is over may change.
    void overwrite(const std::vector<Given>& given, cudaStream_t stream) {
        for (const Given& one : given) {
            if (one.block) {
                write(stream, one.block, Values(one.values.size(), -7));
            }
        }
    }

    std::array<bool, 2> anywhere() { return {draw(2) == 0, draw(2) == 0}; }

    void run() {
        const auto to_host = anywhere();
        const bool on_stream = draw(3) == 0;
        const std::optional<cudaStream_t> stream = on_stream ? std::optional{any_stream()} : std::nullopt;
        const auto given = inputs(stream);
        {
            const Runner::Finished finished = runner_.run(call_of(given, to_host), stream);
            take(finished, right(given), to_host);
        }
        overwrite(given, any_stream());
    }

    void submit() {
        // Threads that hold tickets may not wait for one another's slots.
        const int slots = runner_.options().slots;
        const int most = alone_ ? slots - 1 : slots / 4;
        if (most > 0 && static_cast<int>(sent_.size()) == most) {
            collect();
        }
        Sent sent;
        sent.to_host = anywhere();
        sent.given = inputs({});
        sent.expected = right(sent.given);
        sent.ticket.emplace(runner_.submit(call_of(sent.given, sent.to_host)));
        for (Given& one : sent.given) { // host arrays are read by now
            if (one.input.source == Source::host) {
                one.keep.reset();
            }
        }
        sent_.push_back(std::move(sent));
        if (most == 0) {
            collect();
        }
    }

    void collect() {
        if (sent_.empty()) {
            return;
        }
        Sent sent = std::move(sent_.front());
        sent_.pop_front();
        if (draw(4) != 0) { // else it is dropped
            while (draw(2) == 0 && !sent.ticket->done()) {
            }
            take(sent.ticket->result(), sent.expected, sent.to_host);
        }
        sent.ticket.reset();
        overwrite(sent.given, any_stream());
    }

    void enqueue() {
        cudaStream_t stream = any_stream();
        auto given = inputs(stream);
        const Enqueued found = runner_.enqueue(call_of(given, {false, false}), stream);
        const auto expected = right(given);
        overwrite(given, stream); // in its order
        for (const Given& one : given) {
            if (one.read) {
                one.read->readers().add(0, stream);
            }
        }
        for (std::size_t o = 0; o < 2; ++o) {
            hold(found.outputs[o].device, expected[o], stream);
        }
    }

    void look_at_held() {
        if (held_.empty()) {
            return;
        }
        const Held& one = held_[draw(held_.size())];
        auto seen = std::make_shared<Values>(one.values.size());
        cudaStream_t stream = one.writer == nullptr ? any_stream() : one.writer;
        cudaMemcpyAsync(seen->data(), one.block->data(), seen->size() * sizeof(float), cudaMemcpyDeviceToHost, stream);
        expect(*seen, one.values, "an output that is held");
    }

    void refused() {
        const auto long_one = on_host(9);
        auto given = inputs({});
        try {
            Call call = call_of(given, anywhere());
            call.inputs[draw(2)] = long_one.input;
            static_cast<void>(runner_.run(call));
            wrong_ = "a call that does not fit was taken";
        } catch (const trtw::UsageProblem&) {
            overwrite(given, any_stream());
        }
    }

    void finish() {
        while (!sent_.empty()) {
            collect();
        }
        while (!held_.empty()) {
            let_go(0);
        }
        for (const Stream& stream : streams_) {
            stream.synchronize();
        }
        kept_.clear();
        for (const auto& [seen, values] : std::exchange(seen_, {})) {
            expect(*seen, values, "what another stream read");
        }
    }

    Runner& runner_;
    std::mt19937 random_;
    bool alone_;
    std::array<Stream, 3> streams_;
    std::vector<std::shared_ptr<DeviceMemory>> kept_; ///< to free memory makes the host wait for the device
    std::vector<Held> held_;
    std::deque<Sent> sent_;
    std::vector<std::pair<std::shared_ptr<Values>, Values>> seen_;
    std::string wrong_;
};

RunnerOptions options_of(unsigned seed) {
    std::mt19937 random{seed};
    RunnerOptions options;
    options.slots = static_cast<int>(1 + random() % 4);
    options.cuda_graph = random() % 4 != 0;
    options.graph_cache = 1 + static_cast<int>(random() % 3);
    if (random() % 2 == 0) {
        options.graph_includes_transfers = random() % 2 == 0;
    }
    return options;
}

// More by TRTW_MODEL_SEEDS, from TRTW_MODEL_FIRST on.
unsigned from_environment(const char* name, unsigned value) {
    const char* text = std::getenv(name);
    return text == nullptr ? value : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

} // namespace

TEST_CASE("a runner agrees with its model, whatever comes after what") {
    const unsigned first = from_environment("TRTW_MODEL_FIRST", 0);
    const unsigned count = from_environment("TRTW_MODEL_SEEDS", 200);
    for (unsigned seed = first; seed < first + count; ++seed) {
        fake::seed(seed);
        CAPTURE(seed);
        const auto engine = fake::recurrent(-1);
        if (seed % 5 == 0) {
            engine->open_output = 0;
        }
        Runner runner{engine, options_of(seed)};
        CHECK(Player(runner, seed, true).play(60) == "");
    }
    fake::seed(0);
}

TEST_CASE("and so do several threads with one runner") {
    const unsigned first = from_environment("TRTW_MODEL_FIRST", 0);
    const unsigned count = from_environment("TRTW_MODEL_SEEDS", 200) / 10;
    for (unsigned seed = first; seed < first + count; ++seed) {
        fake::seed(seed);
        CAPTURE(seed);
        RunnerOptions options = options_of(seed);
        options.slots = 1 + static_cast<int>(seed % 4);
        Runner runner{fake::recurrent(-1), options};
        std::array<std::string, 3> wrong;
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < wrong.size(); ++t) {
            threads.emplace_back([&, t] {
                Player player{runner, 1000 * seed + t, false};
                wrong[t] = player.play(40);
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        CHECK(wrong == decltype(wrong){});
    }
    fake::seed(0);
}
