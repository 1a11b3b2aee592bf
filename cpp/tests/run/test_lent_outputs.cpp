// Device memory that others hold, or still read, is not written by later calls.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/detail/stream.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <optional>
#include <thread>
#include <vector>

using fake::call_of;
using fake::host;
using fake::run;
using fake::state;
using fake::Values;
using fake::values_on_device;
using trtw::Call;
using trtw::Output;
using trtw::Runner;
using trtw::RunnerOptions;

namespace {

// As Python gets it: the output without the slot.
Output on_device(Runner& runner, std::vector<trtw::Input> inputs, std::size_t output = 0) {
    return runner.run(call_of(std::move(inputs))).outputs()[output];
}

RunnerOptions with_state() {
    RunnerOptions options;
    options.state = {{"h_next", "h"}};
    return options;
}

} // namespace

TEST_CASE("an output that is held keeps its values") {
    Runner runner{fake::twice(), {}};
    std::vector<Output> kept;
    for (float x = 0; x < 6; ++x) {
        const Values in{x, x};
        kept.push_back(on_device(runner, {host(in)}));
    }
    for (float x = 0; x < 6; ++x) {
        CHECK(values_on_device(kept[static_cast<std::size_t>(x)]) == Values{2 * x + 1, 2 * x + 1});
    }
}

TEST_CASE("a call has the memory of the outputs that it takes") {
    Runner runner{fake::recurrent(4), with_state()};
    const Values x{1, 2, 3, 4};
    Call call = call_of({host(x), state()});
    for (const bool taken : {true, false, true}) {
        call.to_device = {taken, !taken};
        const Runner::Finished finished = runner.run(call);
        CHECK((finished.outputs()[0].device != nullptr) == taken);
        CHECK((finished.outputs()[1].device != nullptr) == !taken);
    }
    call.to_device.reset();
    CHECK(runner.run(call).outputs()[1].device != nullptr);
}

TEST_CASE("a loop that holds the last output replays two graphs and allocates nothing") {
    Runner runner{fake::twice(), {}};
    Output last;
    const auto step = [&](float x) {
        const Values in{x};
        last = on_device(runner, {host(in)});
        CHECK(values_on_device(last) == Values{2 * x + 1});
    };
    for (float x = 0; x < 8; ++x) {
        step(x);
    }
    const std::size_t allocations = fake::allocations();
    const std::size_t graphs = fake::launched_graphs();
    for (float x = 0; x < 8; ++x) {
        step(x);
    }
    CHECK(fake::allocations() == allocations);
    CHECK(fake::launched_graphs() == graphs + 8);
    CHECK(runner.status().graphs == 2);
}

TEST_CASE("however many outputs are held, graphs are replayed, and what was held is used again") {
    for (const std::size_t count : {3U, 10U}) {
        Runner runner{fake::twice(4), {}};
        std::deque<Output> held;
        const auto step = [&](float x) {
            const Values in(4, x);
            held.push_back(on_device(runner, {host(in)}));
            if (held.size() > count) {
                held.pop_front();
            }
            for (std::size_t i = 0; i < held.size(); ++i) {
                const float older = x - static_cast<float>(held.size() - 1 - i);
                CHECK(values_on_device(held[i]) == Values(4, 2 * older + 1));
            }
        };
        for (float x = 0; x < 30; ++x) {
            step(x);
        }
        const auto allocations = fake::allocations();
        const auto graphs = fake::launched_graphs();
        for (float x = 30; x < 50; ++x) {
            step(x);
        }
        CHECK(fake::launched_graphs() - graphs == 20);
        CHECK(fake::allocations() == allocations);
    }
}

TEST_CASE("an output that nobody takes on the device costs no copy where others are held") {
    Runner runner{fake::twice(4), {}};
    const Values x(4, 1);
    std::vector<Output> held;
    for (int i = 0; i < 8; ++i) {
        held.push_back(on_device(runner, {host(x)}));
    }
    Call call = call_of({host(x)});
    call.to_device = {false};
    const auto allocations = fake::allocations();
    const auto finished = runner.run(call);
    CHECK(fake::values(finished.outputs()[0]) == Values(4, 3));
    CHECK(finished.outputs()[0].device == nullptr);
    CHECK(fake::allocations() == allocations);
}

TEST_CASE("what nobody holds is used again") {
    Runner runner{fake::twice(), {}};
    const Values x{1};
    const void* first = on_device(runner, {host(x)}).device->data();
    CHECK(on_device(runner, {host(x)}).device->data() == first);
    CHECK(runner.status().memory.device_outputs <= 256);
}

TEST_CASE("what a consumer's stream still reads is waited for on the device") {
    Runner runner{fake::twice(), {}};
    const trtw::Stream consumer;
    const Values first{1};
    const Values second{5};
    Values seen{0};
    for (int i = 0; i < 3; ++i) {
        run(runner, {host(first)}); // a call that is captured is waited for
    }
    fake::hold(consumer.get());
    {
        const Output lent = on_device(runner, {host(first)});
        fake::enqueue(consumer.get(), [&, from = lent.device->data()] { seen[0] = *static_cast<const float*>(from); });
        lent.device->readers().add(0, consumer.get()); // as the deleter of DLPack does
    }
    Runner::Ticket ticket = runner.submit(call_of({host(second)})); // the host is not held up
    CHECK_FALSE(ticket.done());
    fake::release(consumer.get());
    CHECK(fake::values(ticket.result().outputs().front()) == Values{11});
    CHECK(seen == Values{3});
}

TEST_CASE("state that is held keeps its values, and goes on") {
    Runner runner{fake::recurrent(4), with_state()};
    const Values ones{1, 1, 1, 1};
    std::vector<Output> kept;
    for (float h = 1; h < 7; ++h) {
        kept.push_back(on_device(runner, {host(ones), state()}, 1));
        CHECK(values_on_device(kept.back()) == Values(4, h));
    }
    for (float h = 1; h < 7; ++h) {
        CHECK(values_on_device(kept[static_cast<std::size_t>(h) - 1]) == Values(4, h));
    }
    const Values tens(4, 10);
    kept.push_back(on_device(runner, {host(ones), host(tens)}, 1)); // writes where the last state was
    CHECK(values_on_device(kept[5]) == Values(4, 6));
    runner.reset_state();
    CHECK(run(runner, {host(ones), state()}) == Values(4, 2));
    CHECK(values_on_device(kept[6]) == Values(4, 11));
}
