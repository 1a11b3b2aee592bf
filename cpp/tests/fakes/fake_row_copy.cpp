// Gather and scatter by the kernel's own arithmetic, in the order of the double of CUDA.
#include "fake_cuda.hpp"
#include "run/row_copy.hpp"

#include <vector>

namespace trtw {

void launch_row_copies(const RowCopy* copies, std::size_t copy_count, RowDirection direction, const std::int32_t* rows,
                       std::uint32_t count, std::int32_t spare, cudaStream_t stream) {
    const std::vector<RowCopy> items(copies, copies + copy_count);
    fake::enqueue(stream, [=] {
        for (const RowCopy& copy : items) {
            for (std::uint32_t place = 0; place < count; ++place) {
                for (std::uint32_t word = 0; word < copy.row_words; ++word) {
                    if (direction == RowDirection::gather || rows[place] != spare) {
                        copy_word(copy, direction, rows[place], place, count, word);
                    }
                }
            }
        }
    });
}

} // namespace trtw
