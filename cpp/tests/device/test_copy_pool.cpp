#include "device/copy_pool.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using trtw::copy_in_pieces;
using trtw::copy_memory;
using trtw::CopyPool;
using trtw::shared_copy_bytes;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes noise(std::size_t size, std::mt19937& random) {
    Bytes bytes(size);
    std::uint32_t word = random();
    for (std::uint8_t& byte : bytes) {
        word = word * 1664525U + 1013904223U;
        byte = static_cast<std::uint8_t>(word >> 24U);
    }
    return bytes;
}

// Copies at an offset and checks every byte, those around the target too.
bool copies_exactly(std::size_t size, std::mt19937& random) {
    const std::size_t from = random() % 64;
    const std::size_t to = random() % 64;
    const Bytes source = noise(size + 64, random);
    Bytes target(size + 128, 0xA5);
    std::size_t end = 0;
    bool in_order = true;
    const auto check = [&](std::size_t offset, std::size_t bytes) {
        in_order = in_order && offset == end && bytes > 0;
        // What it is told of lies there already.
        in_order = in_order && std::equal(target.data() + to + offset, target.data() + to + offset + bytes,
                                          source.data() + from + offset);
        end = offset + bytes;
    };
    copy_in_pieces(target.data() + to, source.data() + from, size, check, random() % 2 == 0);
    const auto untouched = [](std::uint8_t byte) { return byte == 0xA5; };
    const auto begin = target.begin() + static_cast<std::ptrdiff_t>(to);
    const auto last = begin + static_cast<std::ptrdiff_t>(size);
    return in_order && end == size && std::equal(begin, last, source.begin() + static_cast<std::ptrdiff_t>(from)) &&
           std::all_of(target.begin(), begin, untouched) && std::all_of(last, target.end(), untouched);
}

bool wait_until(const auto& condition) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

// The exit status of a child process that runs `body`, killed after 20 s.
int child_status(const auto& body) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(body() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

TEST_CASE("memory of any size and place is copied, piece by piece in order") {
    std::mt19937 random{1};
    constexpr std::size_t mib = std::size_t{1} << 20U;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, mib - 1, mib, mib + 1, shared_copy_bytes - 1,
                                   shared_copy_bytes, shared_copy_bytes + 1, 2 * shared_copy_bytes}) {
        CHECK(copies_exactly(size, random));
    }
    for (int i = 0; i < 12; ++i) {
        CHECK(copies_exactly(random() % (3 * shared_copy_bytes), random));
    }
    const Bytes source = noise(shared_copy_bytes + 5, random);
    Bytes target(source.size());
    copy_memory(target.data(), source.data(), source.size());
    CHECK(target == source);
}

TEST_CASE("every piece is done once, whatever the number of helpers") {
    for (const int helpers : {0, 1, 3, 8}) {
        CopyPool pool{helpers};
        for (const std::size_t pieces : {0U, 1U, 2U, 5U, 1000U}) {
            std::vector<std::atomic<int>> times(pieces);
            std::size_t told = 0;
            pool.run(
                pieces, [&](std::size_t piece) { ++times[piece]; },
                [&](std::size_t first, std::size_t end) {
                    for (; first < end; ++first) {
                        told += static_cast<std::size_t>(first == told && times[first] == 1);
                    }
                });
            CHECK(told == pieces);
        }
    }
}

TEST_CASE("pieces that are done by then are told of together") {
    CopyPool pool{1};
    const auto caller = std::this_thread::get_id();
    constexpr std::size_t pieces = 6;
    std::atomic<std::size_t> by_helper = 0;
    std::size_t told = 0;
    std::size_t commands = 0;
    pool.run(
        pieces,
        [&](std::size_t) {
            if (std::this_thread::get_id() != caller) {
                ++by_helper;
            } else {
                CHECK(wait_until([&] { return by_helper == pieces - 1; }));
            }
        },
        [&](std::size_t first, std::size_t end) {
            CHECK(first == told);
            told = end;
            ++commands;
        });
    CHECK(told == pieces);
    CHECK(commands <= 2); // the helper may be between a piece and saying so
}

TEST_CASE("helpers work beside the caller") {
    CopyPool pool{1};
    std::atomic<int> at_work = 0;
    std::atomic<bool> met = true;
    pool.run(
        2,
        [&](std::size_t) {
            ++at_work;
            met = wait_until([&] { return at_work == 2; }) && met;
        },
        [](std::size_t, std::size_t) {});
    CHECK(met);
}

TEST_CASE("helpers poll while jobs come at short intervals, and take part without being woken") {
    for (const int pollers : {1, 2}) {
        CopyPool pool{3, pollers};
        CHECK(wait_until([&] { return pool.keeps_polling(); }));
        std::atomic<bool> met = false;
        CHECK(wait_until([&] {
            std::atomic<int> at_work = 0;
            const bool polled = pool.keeps_polling();
            pool.run(
                static_cast<std::size_t>(1 + pollers),
                [&](std::size_t) {
                    ++at_work;
                    const auto end = std::chrono::steady_clock::now() + 5ms;
                    while (polled && !met && std::chrono::steady_clock::now() < end) {
                        met = at_work > pollers || met;
                    }
                    --at_work;
                },
                [](std::size_t, std::size_t) {}, CopyPool::Wake::no);
            return met.load();
        }));
        std::this_thread::sleep_for(20ms);
        CHECK_FALSE(pool.keeps_polling()); // the first job for long
    }
    CopyPool small{1};
    CHECK_FALSE(small.keeps_polling());
    CHECK_FALSE(small.keeps_polling());
}

TEST_CASE("a caller does not wait for helpers that are busy with another call") {
    CopyPool pool{1};
    std::atomic<int> stuck = 0;
    std::atomic<bool> go_on = false;
    std::thread other{[&] {
        pool.run(
            2,
            [&](std::size_t) {
                ++stuck;
                static_cast<void>(wait_until([&] { return go_on.load(); }));
            },
            [](std::size_t, std::size_t) {});
    }};
    CHECK(wait_until([&] { return stuck == 2; })); // the other caller and the only helper
    std::size_t done = 0;
    pool.run(50, [](std::size_t) {}, [&](std::size_t first, std::size_t end) { done += end - first; });
    CHECK(done == 50);
    CHECK_FALSE(go_on);
    go_on = true;
    other.join();
}

TEST_CASE("nobody touches the memory of a caller that threw") {
    CopyPool pool{3};
    std::mt19937 random{2};
    for (int round = 0; round < 300; ++round) {
        const std::size_t pieces = 2 + random() % 40;
        const std::size_t last = random() % pieces;
        auto memory = std::make_unique<std::vector<int>>(pieces, 0);
        const auto fill = [&] {
            pool.run(
                pieces, [&, values = memory->data()](std::size_t piece) { values[piece] = static_cast<int>(piece); },
                [&](std::size_t first, std::size_t end) {
                    if (first <= last && last < end) {
                        throw std::runtime_error("half-way");
                    }
                });
        };
        CHECK_THROWS_AS(fill(), std::runtime_error);
        memory.reset(); // a sanitizer tells if a helper still writes
    }
    std::size_t done = 0;
    pool.run(9, [](std::size_t) {}, [&](std::size_t first, std::size_t end) { done += end - first; });
    CHECK(done == 9);
}

TEST_CASE("many callers at once, some of which throw") {
    std::atomic<int> wrong = 0;
    std::vector<std::thread> callers;
    for (unsigned t = 0; t < 8; ++t) {
        callers.emplace_back([&wrong, t] {
            std::mt19937 random{t};
            for (int i = 0; i < 4; ++i) {
                wrong += copies_exactly(random() % (2 * shared_copy_bytes), random) ? 0 : 1;
                const Bytes source = noise(shared_copy_bytes, random);
                Bytes target(source.size());
                try {
                    copy_in_pieces(target.data(), source.data(), source.size(),
                                   [](std::size_t offset, std::size_t bytes) {
                                       if (offset + bytes > shared_copy_bytes / 2) {
                                           throw std::runtime_error("half-way");
                                       }
                                   });
                    ++wrong;
                } catch (const std::runtime_error&) {
                }
            }
        });
    }
    for (std::thread& caller : callers) {
        caller.join();
    }
    CHECK(wrong == 0);
}

TEST_CASE("a pool that was stopped leaves the work to its callers") {
    CopyPool pool{2};
    std::atomic<bool> end = false;
    std::atomic<int> wrong = 0;
    std::thread caller{[&] {
        while (!end) {
            std::size_t done = 0;
            pool.run(20, [](std::size_t) {}, [&](std::size_t first, std::size_t end) { done += end - first; });
            wrong += done == 20 ? 0 : 1;
        }
    }};
    std::this_thread::sleep_for(5ms);
    pool.stop();
    pool.stop();
    std::this_thread::sleep_for(5ms);
    end = true;
    caller.join();
    CHECK(wrong == 0);
}

TEST_CASE("a child process copies alone") {
    std::mt19937 random{3};
    CHECK(copies_exactly(2 * shared_copy_bytes, random)); // the helpers run, in this process
    std::atomic<bool> end = false;
    std::thread busy{[&] { // holds the pool's mutex at many of the forks
        while (!end) {
            CopyPool::shared().run(64, [](std::size_t) {}, [](std::size_t, std::size_t) {});
        }
    }};
    for (int i = 0; i < 10; ++i) {
        CHECK(child_status([&] { return copies_exactly(shared_copy_bytes + 7, random); }) == 0);
    }
    end = true;
    busy.join();
}
