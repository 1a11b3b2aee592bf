// Rows that go from the states' memory to a batch and back.
#include "run/row_copy.hpp"
#include "trtw/detail/stream.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

TEST_CASE("a word of every width goes to its place and back, whichever axis is the batch's") {
    std::mt19937 random{7};
    for (const std::size_t inner : {1U, 2U, 3U, 4U, 8U, 12U, 16U, 48U}) {
        for (const std::size_t outer : {1U, 2U, 5U}) {
            const std::size_t row_bytes = inner * outer;
            const std::size_t stride = (row_bytes + 15) / 16 * 16;
            const std::vector<std::int32_t> rows{3, 0, 4, 4}; // 4 is the spare row
            std::vector<trtw::Word16> memory(stride / 16 * 5 + (row_bytes * rows.size() + 15) / 16);
            auto* arena = reinterpret_cast<std::byte*>(memory.data());
            std::byte* batch = arena + stride * 5;
            for (std::size_t i = 0; i < stride * 5; ++i) {
                arena[i] = static_cast<std::byte>(random());
            }
            const std::vector<std::byte> before(arena, arena + stride * 5);
            const auto copy = trtw::row_copy(arena, stride, batch, row_bytes, inner);
            const auto launch = [&](trtw::RowDirection direction) {
                const trtw::Stream stream;
                trtw::launch_row_copies(&copy, 1, direction, rows.data(), 4, 4, stream.get());
                stream.synchronize();
            };
            launch(trtw::RowDirection::gather);
            bool right = true;
            for (std::size_t place = 0; place < rows.size(); ++place) {
                for (std::size_t o = 0; o < outer; ++o) {
                    for (std::size_t i = 0; i < inner; ++i) {
                        right = right && batch[(o * rows.size() + place) * inner + i] ==
                                             before[static_cast<std::size_t>(rows[place]) * stride + o * inner + i];
                    }
                }
            }
            CHECK(right);
            for (const std::size_t row : {0U, 3U}) {
                std::memset(arena + row * stride, 0, row_bytes);
            }
            std::memset(batch + 2 * inner, 0x77, inner); // what comes of the spare row is dropped
            launch(trtw::RowDirection::scatter);
            CHECK(std::memcmp(arena, before.data(), before.size()) == 0);
        }
    }
}
