// Gather and scatter on the GPU: one launch for the tensors of a batch.
#include "device/check.hpp"
#include "run/row_copy.hpp"

#include <algorithm>
#include <span>

namespace trtw {

namespace {

constexpr unsigned block_size = 256;
constexpr unsigned most_blocks = 1024; // of a row; a thread does several words of longer ones

/// They travel as a parameter of the launch: 1280 of the 4096 bytes that all parameters may take.
constexpr std::size_t copies_per_launch = 32;
struct Copies {
    RowCopy items[copies_per_launch];
};
static_assert(sizeof(Copies) <= 2048);

__global__ void copy_rows(const __grid_constant__ Copies copies, RowDirection direction, const std::int32_t* rows,
                          std::int32_t spare) {
    const RowCopy& copy = copies.items[blockIdx.z];
    const std::int32_t row = rows[blockIdx.y];
    if (direction == RowDirection::scatter && row == spare) {
        return;
    }
    // 32 bits suffice: a row has less than 2^31 words, a grid 2^18 threads a row.
    for (std::uint32_t word = blockIdx.x * block_size + threadIdx.x; word < copy.row_words;
         word += gridDim.x * block_size) {
        copy_word(copy, direction, row, blockIdx.y, gridDim.y, word);
    }
}

} // namespace

void launch_row_copies(const RowCopy* copies, std::size_t copy_count, RowDirection direction, const std::int32_t* rows,
                       std::uint32_t count, std::int32_t spare, cudaStream_t stream) {
    for (std::size_t first = 0; first < copy_count; first += copies_per_launch) {
        const std::span some(copies + first, std::min(copies_per_launch, copy_count - first));
        Copies parameter{};
        std::copy(some.begin(), some.end(), parameter.items);
        std::uint32_t words = 1;
        for (const RowCopy& copy : some) {
            words = std::max(words, copy.row_words);
        }
        const dim3 grid(std::min((words + block_size - 1) / block_size, most_blocks), count,
                        static_cast<unsigned>(some.size()));
        copy_rows<<<grid, block_size, 0, stream>>>(parameter, direction, rows, spare);
        check_cuda(cudaGetLastError(), "gather or scatter kernel");
    }
}

} // namespace trtw
