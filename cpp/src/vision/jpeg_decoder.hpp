// JPEG files to pixels on the device, by nvJPEG, which is opened at run time.
#pragma once

#include "trtw/memory.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace trtw {

/// Pixels in device memory: channels in the order blue, green, red, rows without gaps.
struct DecodedImage {
    std::shared_ptr<DeviceMemory> block;
    int height = 0;
    int width = 0;
};

/// Decodes on one GPU. Thread-safe: calls do not wait for each other. Memory of images that are gone is used again.
class JpegDecoder {
public:
    /// `library`: a file, or a name for the loader to look up; a negative `device` stands for the one that is selected.
    /// Throws ComponentMissing where it cannot be opened or does not serve this GPU, DeviceFailure.
    JpegDecoder(const std::string& library, int device);
    ~JpegDecoder();
    JpegDecoder(const JpegDecoder&) = delete;
    JpegDecoder& operator=(const JpegDecoder&) = delete;

    /// The pixels as they are stored, whatever EXIF says of their orientation, complete when it returns; nullopt for
    /// files of other than three components, and what nvJPEG does not decode. Throws OutOfMemory or DeviceFailure.
    std::optional<DecodedImage> decode(std::span<const std::uint8_t> file);

    [[nodiscard]] int device() const noexcept { return device_; }
    /// Such as "12.4.0".
    [[nodiscard]] std::string version() const;

private:
    class Blocks;
    class Lanes;

    int device_ = 0;
    std::shared_ptr<Blocks> blocks_;
    std::unique_ptr<Lanes> lanes_;
};

} // namespace trtw
