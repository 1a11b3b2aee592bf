// Gather and scatter: rows of an arena, one a stream, and the rows of a batch.
#pragma once

#include "device/host_device.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace trtw {

enum class RowDirection : std::uint8_t {
    gather, ///< from the arena to the batch
    scatter ///< from the batch to the arena
};

/// One tensor. In the arena the bytes of a row lie side by side; in the batch, whose batch axis may be any, in runs of
/// `inner_words`, one for every index of the dimensions before the batch axis.
struct RowCopy {
    std::byte* arena = nullptr;
    std::byte* batch = nullptr;
    std::size_t stride = 0;        ///< bytes from row to row of the arena
    std::uint32_t row_words = 0;   ///< words of a row
    std::uint32_t inner_words = 1; ///< words of a run
    std::uint32_t word_bytes = 1;  ///< 1, 2, 4, 8 or 16
};

/// The widest word is used that divides a run: addresses and `stride` are multiples of it, as 16 divides them.
inline RowCopy row_copy(void* arena, std::size_t stride, void* batch, std::size_t row_bytes, std::size_t inner_bytes) {
    std::size_t word = 16;
    while (inner_bytes % word != 0) {
        word /= 2;
    }
    return {static_cast<std::byte*>(arena),
            static_cast<std::byte*>(batch),
            stride,
            static_cast<std::uint32_t>(row_bytes / word),
            static_cast<std::uint32_t>(inner_bytes / word),
            static_cast<std::uint32_t>(word)};
}

struct alignas(16) Word16 {
    std::uint64_t low;
    std::uint64_t high;
};

template <class Word>
TRTW_HOST_DEVICE void copy_word_as(const RowCopy& copy, RowDirection direction, std::int32_t row, std::uint32_t place,
                                   std::uint32_t rows, std::uint32_t word) {
    const std::uint32_t run = word / copy.inner_words;
    const std::size_t before = (static_cast<std::size_t>(run) * rows + place) * copy.inner_words;
    Word* in_batch = reinterpret_cast<Word*>(copy.batch) + before + word % copy.inner_words;
    Word* in_arena = reinterpret_cast<Word*>(copy.arena + static_cast<std::size_t>(row) * copy.stride) + word;
    if (direction == RowDirection::gather) {
        *in_batch = *in_arena;
    } else {
        *in_arena = *in_batch;
    }
}

/// Copies one word between row `row` of the arena and row `place` of a batch of `rows`.
TRTW_HOST_DEVICE void copy_word(const RowCopy& copy, RowDirection direction, std::int32_t row, std::uint32_t place,
                                std::uint32_t rows, std::uint32_t word) {
    switch (copy.word_bytes) {
    case 16:
        copy_word_as<Word16>(copy, direction, row, place, rows, word);
        break;
    case 8:
        copy_word_as<std::uint64_t>(copy, direction, row, place, rows, word);
        break;
    case 4:
        copy_word_as<std::uint32_t>(copy, direction, row, place, rows, word);
        break;
    case 2:
        copy_word_as<std::uint16_t>(copy, direction, row, place, rows, word);
        break;
    default:
        copy_word_as<std::uint8_t>(copy, direction, row, place, rows, word);
        break;
    }
}

/// Most words of a row that one launch takes.
constexpr std::size_t most_row_words = 0x7FFF'FFFF;

/// Enqueues the copies of all tensors. `rows`, in device memory, holds the arena's row for each of the batch's `count`
/// rows (at most most_batch_rows) and is read when the copies run. Nothing is scattered to the row `spare`. Throws
/// DeviceFailure.
void launch_row_copies(const RowCopy* copies, std::size_t copy_count, RowDirection direction, const std::int32_t* rows,
                       std::uint32_t count, std::int32_t spare, cudaStream_t stream);

} // namespace trtw
