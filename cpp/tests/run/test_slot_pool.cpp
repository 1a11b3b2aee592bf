#include "run/slot_pool.hpp"

#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using trtw::SlotPool;
using trtw::UsageProblem;

TEST_CASE("slots are handed out in turn") {
    SlotPool pool{3};
    CHECK(pool.lease() == 0);
    CHECK(pool.lease() == 1);
    pool.release(0);
    CHECK(pool.lease() == 2);
    CHECK(pool.lease() == 0);
}

TEST_CASE("a certain slot can be had while it is free") {
    SlotPool pool{2};
    CHECK(pool.try_lease(1) == 1);
    CHECK(pool.try_lease(1) == std::nullopt);
    CHECK(pool.lease() == 0);
    pool.release(1);
    CHECK(pool.lease() == 1);
}

TEST_CASE("a thread that waits for itself is told so") {
    SlotPool pool{2, 20ms};
    pool.park(pool.lease());
    pool.park(pool.lease());
    CHECK_THROWS_WITH_AS(pool.lease(), doctest::Contains("nobody waits for"), UsageProblem);
    pool.unpark(0);
    pool.release(0);
    CHECK(pool.lease() == 0);
}

TEST_CASE("a thread waits for slots that others hold") {
    SlotPool pool{1, 5ms};
    const int held = pool.lease();
    std::atomic<int> got = -1;
    std::thread other{[&] { got = pool.lease(); }};
    std::this_thread::sleep_for(30ms);
    CHECK(got == -1);
    pool.release(held);
    other.join();
    CHECK(got == 0);
}

TEST_CASE("one thread submits, another waits") {
    SlotPool pool{1, 5s};
    pool.park(pool.lease());
    std::thread waiter{[&] {
        std::this_thread::sleep_for(20ms);
        pool.unpark(0);
        pool.release(0);
    }};
    CHECK(pool.lease() == 0); // no error though this thread parked every slot
    waiter.join();
}

TEST_CASE("threads that wait for one another are told so") {
    constexpr int count = 3;
    SlotPool pool{count, 20ms};
    std::atomic<int> parked = 0;
    std::atomic<int> refused = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t) {
        threads.emplace_back([&] {
            const int slot = pool.lease();
            pool.park(slot);
            ++parked;
            while (parked < count) {
                std::this_thread::yield();
            }
            try {
                pool.release(pool.lease());
            } catch (const UsageProblem&) {
                ++refused;
            }
            pool.unpark(slot);
            pool.release(slot);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(refused >= 1);
    CHECK(pool.lease() >= 0);
}

TEST_CASE("a thread that may take a ticket is waited for") {
    SlotPool pool{2, 20ms};
    const int mine = pool.lease();
    pool.park(mine);
    std::thread other{[&] {
        const int slot = pool.lease();
        pool.park(slot);
        std::this_thread::sleep_for(150ms); // computes: it waits for no slot
        pool.unpark(slot);
        pool.release(slot);
    }};
    while (true) {
        const auto free = pool.try_lease(1 - mine);
        if (!free) {
            break;
        }
        pool.release(*free);
    }
    CHECK(pool.lease() == 1 - mine);
    other.join();
}

TEST_CASE("a wait can be ended from outside") {
    struct Interrupted {};
    int beats = 0;
    SlotPool pool{1, 10s, [&] {
                      if (++beats == 2) {
                          throw Interrupted{};
                      }
                  }};
    const int held = pool.lease();
    CHECK_THROWS_AS(pool.lease(), Interrupted);
    pool.release(held);
    CHECK(pool.lease() == held);
}

TEST_CASE("no slot is ever held twice") {
    constexpr int slots = 3;
    SlotPool pool{slots};
    std::vector<std::atomic<int>> holders(slots);
    std::atomic<int> clashes = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 500; ++i) {
                const int slot = pool.lease();
                if (++holders[static_cast<std::size_t>(slot)] != 1) {
                    ++clashes;
                }
                if ((i + t) % 2 == 0) {
                    pool.park(slot);
                    pool.unpark(slot);
                }
                --holders[static_cast<std::size_t>(slot)];
                pool.release(slot);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(clashes == 0);
}
