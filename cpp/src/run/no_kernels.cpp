// What stands for kernels where the core is built without nvcc.
#include "run/pixel_pack.hpp"
#include "trtw/error.hpp"

namespace trtw {

void launch_pixel_pack(const PixelPack& /*pack*/, cudaStream_t /*stream*/) {
    throw ComponentMissing(
        "The engine wants an input with the channels last, for which the core needs CUDA kernels, "
        "and it was built without (no nvcc). Run `build-native` where nvcc is installed, or build the "
        "engine without I/O formats.");
}

} // namespace trtw
