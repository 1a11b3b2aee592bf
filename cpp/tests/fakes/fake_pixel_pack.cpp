// Channels last by the kernel's own arithmetic, in the order of the double of CUDA.
#include "fake_cuda.hpp"
#include "run/pixel_pack.hpp"

namespace trtw {

void launch_pixel_pack(const PixelPack& pack, cudaStream_t stream) {
    fake::enqueue(stream, [pack] {
        for (std::size_t i = 0; i < pack.work; ++i) {
            pack_group(pack, i);
        }
    });
}

} // namespace trtw
