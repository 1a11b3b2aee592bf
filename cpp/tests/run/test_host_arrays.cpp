// Where a call's host arrays are read and written: where they lie if that is page-locked, else through the slot's own.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

using fake::call_of;
using fake::host;
using fake::PageLocked;
using fake::Values;
using trtw::Call;
using trtw::Input;
using trtw::Runner;
using trtw::RunnerOptions;

namespace {

constexpr std::int64_t large = 30'000; // elements: 117 KiB
constexpr std::int64_t cut = 150'000;  // 586 KiB, in pieces
constexpr std::size_t bytes_of(std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(float);
}

Values counting(std::int64_t elements, float first) {
    Values values(static_cast<std::size_t>(elements));
    std::iota(values.begin(), values.end(), first);
    return values;
}

// 2 x + 1 of every element
Values doubled(Values values) {
    for (float& value : values) {
        value = 2 * value + 1;
    }
    return values;
}

Call staying(const Values& x) {
    Call call = call_of({host(x)});
    call.arrays_stay = true;
    return call;
}

} // namespace

TEST_CASE("page-locked arrays are read where they lie, at any address, from the same graph") {
    for (const std::optional<bool> fused : {std::optional<bool>{}, std::optional{false}}) {
        RunnerOptions options;
        options.graph_includes_transfers = fused;
        Runner runner{fake::twice(large), options};
        std::vector<Values> arrays;
        for (int i = 0; i < 3; ++i) {
            arrays.push_back(counting(large, static_cast<float>(i)));
        }
        const auto graphs = fake::launched_graphs();
        for (int i = 0; i < 12; ++i) {
            const Values& x = arrays[static_cast<std::size_t>(i % 3)];
            const PageLocked locked{x.data(), bytes_of(large)};
            const auto copies = fake::copies_from(x.data(), bytes_of(large));
            CHECK(fake::values(runner.run(staying(x)).outputs()[0]) == doubled(x));
            CHECK(fake::copies_from(x.data(), bytes_of(large)) == copies + 1);
        }
        CHECK(fake::launched_graphs() - graphs == 10);
        CHECK(runner.status().graphs == 1);
        CHECK(runner.status().in_place_inputs == 12);
    }
}

TEST_CASE("other arrays are read before the call returns, in pieces where they are large") {
    Runner runner{fake::twice(cut), {}};
    const Values x = counting(cut, 1);
    const auto block = runner.input_block(0, 0, bytes_of(cut));
    const auto copies = fake::copies_from(block->data(), bytes_of(cut));
    const auto direct = fake::copies_from(x.data(), bytes_of(cut));
    CHECK(fake::values(runner.run(staying(x)).outputs()[0]) == doubled(x));
    const auto commands = fake::copies_from(block->data(), bytes_of(cut)) - copies;
    CHECK(commands >= 1);
    CHECK(commands <= 5); // of 128 KiB each, or more where a helper took part
    CHECK(fake::copies_from(x.data(), bytes_of(cut)) == direct);
    CHECK(runner.status().in_place_inputs == 0);
}

TEST_CASE("a page-locked array that may change once the call is on its way is copied") {
    Runner runner{fake::twice(large), {}};
    Values x = counting(large, 1);
    const PageLocked locked{x.data(), bytes_of(large)};
    for (int i = 0; i < 4; ++i) {
        const Values expected = doubled(x);
        std::optional<Runner::Ticket> ticket;
        {
            const fake::HeldDevice held;
            ticket.emplace(runner.submit(call_of({host(x)})));
            x = counting(large, static_cast<float>(7 * i));
        }
        CHECK(fake::values(ticket->result().outputs()[0]) == expected);
    }
}

TEST_CASE("an array of which only a part is page-locked is copied") {
    Runner runner{fake::twice(large), {}};
    const Values x = counting(large, 1);
    const PageLocked locked{x.data(), bytes_of(large) - 1};
    const auto copies = fake::copies_from(x.data(), bytes_of(large));
    CHECK(fake::values(runner.run(staying(x)).outputs()[0]) == doubled(x));
    CHECK(fake::copies_from(x.data(), bytes_of(large)) == copies);
}

TEST_CASE("outputs are written into page-locked memory of the caller's, and only there") {
    for (const std::optional<bool> fused : {std::optional<bool>{}, std::optional{false}}) {
        RunnerOptions options;
        options.graph_includes_transfers = fused;
        Runner runner{fake::twice(large), options};
        std::vector<Values> targets(2, Values(large));
        for (int i = 0; i < 8; ++i) {
            const Values x = counting(large, static_cast<float>(i));
            Values& target = targets[static_cast<std::size_t>(i % 2)];
            const PageLocked locked{target.data(), bytes_of(large)};
            Call call = staying(x);
            call.into = {target.data()};
            const auto copies = fake::copies_to(target.data(), bytes_of(large));
            CHECK(runner.run(call).outputs()[0].in_place);
            CHECK(target == doubled(x));
            CHECK(fake::copies_to(target.data(), bytes_of(large)) == copies + 1);
        }
        CHECK(runner.status().graphs == 1);
    }
}

TEST_CASE("outputs for ordinary memory, and small ones, come to the slot's own") {
    auto engine = fake::twice(-1);
    Runner runner{engine, {}};
    const Values x{1, 2};
    Values target(2);
    const PageLocked locked{target.data(), 2 * sizeof(float)};
    Call call = staying(x);
    call.into = {target.data()};
    for (int i = 0; i < 4; ++i) {
        const Runner::Finished finished = runner.run(call);
        CHECK_FALSE(finished.outputs()[0].in_place);
        CHECK(fake::values(finished.outputs()[0]) == doubled(x));
    }
    Runner other{fake::twice(large), {}};
    const Values y = counting(large, 1);
    Values ordinary(large);
    Call into = staying(y);
    into.into = {ordinary.data()};
    const Runner::Finished finished = other.run(into);
    CHECK_FALSE(finished.outputs()[0].in_place);
    CHECK(fake::values(finished.outputs()[0]) == doubled(y));
}

TEST_CASE("rearranged arrays are copied in pieces") {
    for (const std::int64_t elements : {large, cut}) {
        Runner runner{fake::twice(elements), {}};
        const Values whole = counting(2 * elements, 0);
        Values expected;
        for (std::size_t i = 0; i < whole.size(); i += 2) {
            expected.push_back(2 * whole[i] + 1);
        }
        Input every_second = host(whole);
        every_second.shape = {elements};
        every_second.strides = {2 * sizeof(float)};
        for (int i = 0; i < 4; ++i) {
            CHECK(fake::run(runner, {every_second}) == expected);
        }
        CHECK(runner.status().strided_copies == 4);
    }
}

TEST_CASE("a view of the slot's own buffer is taken for what it holds") {
    Runner runner{fake::twice(large), {}};
    const auto block = runner.input_block(0, 0, bytes_of(large) + 64);
    auto* first = static_cast<float*>(block->data());
    for (int i = 0; i < 4; ++i) {
        for (const int begin : {0, 16}) {
            const Values x = counting(large, static_cast<float>(i));
            std::copy(x.begin(), x.end(), first + begin);
            Input input = host(x);
            input.data = first + begin;
            CHECK(fake::run(runner, {input}) == doubled(x));
        }
    }
    CHECK(runner.status().in_place_inputs == 4);
}
