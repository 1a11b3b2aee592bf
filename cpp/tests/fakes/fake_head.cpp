// Heads by the reference on the CPU, in the order of the double of CUDA.
#include "fake_cuda.hpp"
#include "vision/head_kernel.hpp"

#include <algorithm>

namespace trtw::head {

void launch_head(const Head& head, int images, const Room& room, cudaStream_t stream) {
    fake::enqueue(stream, [=] {
        for (int image = 0; image < images; ++image) {
            const FoundBoxes found = found_in(head, image);
            const std::size_t bytes = result_bytes(head.max_dets, head.values);
            const Result to = result_at(room.host, bytes, head.max_dets, image);
            *to.header = {static_cast<std::int32_t>(found.boxes.size()), found.odd ? 1 : 0,
                          static_cast<std::uint32_t>(found.masks.size()), 0};
            for (std::size_t at = 0; at < found.boxes.size(); ++at) {
                const auto& [corners, score, label] = found.boxes[at];
                to.boxes[at] = {corners[0], corners[1], corners[2], corners[3]};
                to.scores[at] = score;
                to.labels[at] = label;
            }
            std::ranges::copy(found.more, to.more);
            std::ranges::copy(found.masks, room.host_masks + room.mask_words * image);
        }
    });
}

} // namespace trtw::head
