// Tickets own the slots of their calls.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using fake::call_of;
using fake::host;
using fake::Values;
using fake::values;
using trtw::Runner;
using trtw::RunnerOptions;
using trtw::UsageProblem;
using Clock = std::chrono::steady_clock;

TEST_CASE("a dropped ticket gives its slot back") {
    Runner runner{fake::twice(), {}};
    const Values x{3};
    const auto begin = Clock::now();
    for (int i = 0; i < 5; ++i) {
        static_cast<void>(runner.submit(call_of({host(x)})));
    }
    CHECK(fake::run(runner, {host(x)}) == Values{7});
    CHECK(Clock::now() - begin < 5s);
}

TEST_CASE("a dropped ticket waits for the device first") {
    Runner runner{fake::twice(), {}};
    const Values x{3};
    std::optional<fake::HeldDevice> held{std::in_place};
    std::optional<Runner::Ticket> ticket{runner.submit(call_of({host(x)}))};
    std::atomic<bool> dropped = false;
    std::thread other{[&] {
        ticket.reset();
        dropped = true;
    }};
    std::this_thread::sleep_for(30ms);
    CHECK_FALSE(dropped);
    held.reset();
    other.join();
    CHECK(dropped);
}

TEST_CASE("a ticket tells whether its call is done, and waits no longer than it may") {
    for (const bool spin : {true, false}) {
        trtw::RunnerOptions options;
        options.spin = spin;
        Runner runner{fake::twice(), options};
        const Values x{3};
        std::optional<fake::HeldDevice> held{std::in_place};
        Runner::Ticket ticket = runner.submit(call_of({host(x)}));
        CHECK_FALSE(ticket.done());
        const auto begin = Clock::now();
        CHECK_FALSE(ticket.wait_until(begin + 20ms));
        CHECK(Clock::now() - begin >= 20ms);
        held.reset();
        CHECK(ticket.wait_until(Clock::now() + 10s));
        CHECK(ticket.done());
        CHECK(values(ticket.result().outputs().front()) == Values{7});
        CHECK(ticket.done());
        CHECK_THROWS_WITH_AS(ticket.result(), doctest::Contains("already taken"), UsageProblem);
    }
}

TEST_CASE("a moved ticket owns the slot alone") {
    Runner runner{fake::twice(), {}};
    const Values x{3};
    std::vector<Runner::Ticket> tickets;
    tickets.push_back(runner.submit(call_of({host(x)})));
    Runner::Ticket last = std::move(tickets.front());
    tickets.clear();
    CHECK(values(last.result().outputs().front()) == Values{7});
    CHECK(fake::run(runner, {host(x)}) == Values{7});
}

TEST_CASE("room of another shape is told before the result is taken") {
    Runner runner{fake::twice(), {}};
    const Values x{3};
    Runner::Ticket ticket = runner.submit(call_of({host(x)}));
    CHECK_THROWS_WITH_AS(ticket.check_room({trtw::Shape{3}}), doctest::Contains("[3], but the output has [1]"),
                         UsageProblem);
    ticket.check_room({trtw::Shape{1}});
    ticket.check_room({});
    CHECK(values(ticket.result().outputs().front()) == Values{7});
}

TEST_CASE("threads that submit, run and drop get their own values") {
    RunnerOptions options;
    options.slots = 3;
    options.spin = false;
    Runner runner{fake::twice(), options};
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 60; ++i) {
                const Values x(static_cast<std::size_t>(1 + (i + t) % 4), static_cast<float>(t * 100 + i));
                const Values expected(x.size(), 2 * x[0] + 1);
                if (i % 3 == 0) {
                    wrong += fake::run(runner, {host(x)}) == expected ? 0 : 1;
                    continue;
                }
                Runner::Ticket ticket = runner.submit(call_of({host(x)}));
                if (i % 3 == 1) {
                    static_cast<void>(ticket.done());
                    wrong += values(ticket.result().outputs().front()) == expected ? 0 : 1;
                }
                static_cast<void>(runner.status());
                static_cast<void>(runner.last_timing());
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(wrong == 0);
}

TEST_CASE("submit never waits for the device, and is replayed from the third use on") {
    for (const bool fused : {true, false}) {
        RunnerOptions options;
        options.graph_includes_transfers = fused;
        options.state = {{"h_next", "h"}};
        Runner runner{fake::recurrent(4), options};
        const Values x(4, 1);
        auto graphs = fake::launched_graphs();
        for (int i = 0; i < 12; ++i) {
            std::optional<fake::HeldDevice> held{std::in_place};
            Runner::Ticket ticket = runner.submit(call_of({host(x), fake::state()}));
            CHECK_FALSE(ticket.done());
            held.reset();
            CHECK(values(ticket.result().outputs()[0]) == Values(4, static_cast<float>(2 + i)));
            graphs = i == 3 ? fake::launched_graphs() : graphs; // each buffer of the state had its second use
        }
        CHECK(fake::launched_graphs() - graphs == 8);
        CHECK(runner.graph_status() == "on: 2 graphs captured");
    }
}

TEST_CASE("of several threads one gets the result") {
    Runner runner{fake::twice(), {}};
    const Values x{3};
    for (int round = 0; round < 20; ++round) {
        Runner::Ticket ticket = runner.submit(call_of({host(x)}));
        std::atomic<int> got = 0;
        std::atomic<int> refused = 0;
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&] {
                try {
                    got += values(ticket.result().outputs().front()) == Values{7} ? 1 : 0;
                } catch (const UsageProblem&) {
                    ++refused;
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        CHECK(got == 1);
        CHECK(refused == 3);
    }
}
