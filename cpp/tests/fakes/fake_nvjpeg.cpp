// A double of nvJPEG's library over the double of CUDA: it reads the header of a JPEG file, and its pixels are a
// pattern.
#include "fake_cuda.hpp"
#include "vision/nvjpeg.hpp"

#include <cstdint>

namespace trtw::nvjpeg {
struct nvjpegHandle {};
struct nvjpegJpegState {};
} // namespace trtw::nvjpeg

using namespace trtw::nvjpeg;

namespace {

constexpr Status bad_jpeg = 3;
constexpr Status not_supported = 4;
constexpr int progressive = 0xC2;
constexpr int too_wide = 4096; // for the memory that there is

struct Frame {
    int kind = 0;
    int height = 0;
    int width = 0;
    int components = 0;
};

int word(const unsigned char* at) {
    return at[0] * 256 + at[1];
}

Frame frame_of(const unsigned char* data, std::size_t bytes) {
    for (std::size_t at = 2; at + 9 < bytes && data[at] == 0xFF;
         at += 2 + static_cast<std::size_t>(word(data + at + 2))) {
        if (data[at + 1] >= 0xC0 && data[at + 1] <= 0xC2) {
            return {data[at + 1], word(data + at + 5), word(data + at + 7), data[at + 9]};
        }
    }
    return {};
}

} // namespace

extern "C" {

Status nvjpegGetProperty(int type, int* value) {
    *value = type == 0 ? 12 : type == 1 ? 4 : 0;
    return success;
}
Status nvjpegCreateEx(int /*backend*/, void* /*device*/, void* /*pinned*/, unsigned flags, Handle* handle) {
    if (flags != 0) {
        return 2; // as versions before CUDA 12 that do not know the flag
    }
    *handle = new nvjpegHandle;
    return success;
}
Status nvjpegDestroy(Handle handle) {
    delete handle;
    return success;
}
Status nvjpegJpegStateCreate(Handle /*handle*/, State* state) {
    *state = new nvjpegJpegState;
    return success;
}
Status nvjpegJpegStateDestroy(State state) {
    delete state;
    return success;
}
Status nvjpegGetImageInfo(Handle /*handle*/, const unsigned char* data, std::size_t bytes, int* components,
                          int* /*subsampling*/, int* widths, int* heights) {
    const Frame frame = frame_of(data, bytes);
    *components = frame.components;
    widths[0] = frame.width;
    heights[0] = frame.height;
    return frame.kind == 0 ? bad_jpeg : success;
}
Status nvjpegDecode(Handle /*handle*/, State /*state*/, const unsigned char* data, std::size_t bytes, int format,
                    Image* image, cudaStream_t stream) {
    const Frame frame = frame_of(data, bytes);
    if (frame.kind == progressive || format != interleaved_bgr) {
        return not_supported;
    }
    if (frame.width >= too_wide) {
        return allocator_failure;
    }
    fake::enqueue(stream, [=, to = image->channel[0], pitch = image->pitch[0], last = data[bytes - 1]] {
        for (int y = 0; y < frame.height; ++y) {
            for (int x = 0; x < 3 * frame.width; ++x) {
                to[static_cast<std::size_t>(y) * pitch + static_cast<std::size_t>(x)] =
                    static_cast<std::uint8_t>(13 * y + 7 * x + last);
            }
        }
    });
    return success;
}
}
