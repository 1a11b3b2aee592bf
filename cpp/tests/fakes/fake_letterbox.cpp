// The letterbox's kernel on the host, for grey levels, in the order of the double of CUDA.
#include "fake_cuda.hpp"
#include "vision/letterbox_kernel.hpp"

#include <cstring>
#include <vector>

namespace trtw {

void launch_letterbox(const DeviceImage* images, std::size_t count, const LetterboxSpec& spec, void* output,
                      cudaStream_t stream) {
    fake::enqueue(
        stream, [spec, items = std::vector(images, images + count), to = static_cast<std::uint8_t*>(output)]() mutable {
            for (const DeviceImage& item : items) {
                std::memset(to, 0, spec.item_bytes());
                for (int y = 0; y < spec.height; ++y) {
                    for (int x = 0; x < spec.width; ++x) {
                        int bgr[3];
                        grey_levels(item, spec.pad_value, y, x, bgr);
                        for (int c = 0; c < 3; ++c) {
                            to[output_index(spec.layout, spec.height, spec.width, c, y, x)] =
                                static_cast<std::uint8_t>(bgr[c]);
                        }
                    }
                }
                to += spec.item_bytes();
            }
        });
}

} // namespace trtw
