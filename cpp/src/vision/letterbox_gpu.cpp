#include "trtw/vision/letterbox_gpu.hpp"

#include "trtw/device/check.hpp"
#include "trtw/device/range.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace trtw::vision {

namespace {

// The host fills one piece while the device fetches the one before. Below this size the calls cost more than they
// hide.
constexpr std::size_t piece_bytes = std::size_t{512} << 10U;
constexpr std::size_t alignment = 256;
constexpr std::size_t most_images = 65535; // the grid's third dimension

std::size_t aligned(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

std::size_t tight_row(const ImageView& image) {
    return static_cast<std::size_t>(image.width) * 3;
}

std::size_t pixel_bytes(const ImageView& image) {
    return tight_row(image) * static_cast<std::size_t>(image.height);
}

DeviceImage describe(const ImageView& image, const LetterboxSpec& spec, const void* pixels) {
    DeviceImage item;
    item.geometry = letterbox_geometry(image.height, image.width, spec);
    item.pixels = static_cast<const std::uint8_t*>(pixels);
    item.row_bytes = static_cast<std::int64_t>(tight_row(image));
    item.row_ratio = 1.0 / (static_cast<double>(item.geometry.new_height) / image.height);
    item.column_ratio = 1.0 / (static_cast<double>(item.geometry.new_width) / image.width);
    return item;
}

// Copies rows into `host` and starts their way to `target`, a few rows at a time.
void upload(const ImageView& image, std::uint8_t* host, std::uint8_t* target, cudaStream_t stream) {
    const std::size_t row = tight_row(image);
    const int rows_per_piece = static_cast<int>(std::max<std::size_t>(piece_bytes / row, 1));
    for (int first = 0; first < image.height; first += rows_per_piece) {
        const int rows = std::min(rows_per_piece, image.height - first);
        const std::size_t offset = static_cast<std::size_t>(first) * row;
        const std::size_t bytes = static_cast<std::size_t>(rows) * row;
        const std::uint8_t* source = image.pixels + first * image.row_bytes;
        if (image.row_bytes == static_cast<std::ptrdiff_t>(row)) {
            std::memcpy(host + offset, source, bytes);
        } else {
            for (int y = 0; y < rows; ++y) {
                std::memcpy(host + offset + static_cast<std::size_t>(y) * row, source + y * image.row_bytes, row);
            }
        }
        TRTW_CUDA(cudaMemcpyAsync(target + offset, host + offset, bytes, cudaMemcpyHostToDevice, stream));
    }
}

} // namespace

void LetterboxGpu::enqueue(std::span<const ImageView> images, const LetterboxSpec& spec, void* output,
                           cudaStream_t stream) {
    const device::Range range{"letterbox"};
    spec.validate();
    if (images.empty() || images.size() > most_images) {
        throw UsageProblem("A letterbox batch holds 1 to 65535 images; got " + std::to_string(images.size()) + ".");
    }
    const std::size_t table_bytes = aligned(images.size() * sizeof(DeviceImage));
    std::size_t total = table_bytes;
    for (const ImageView& image : images) {
        static_cast<void>(letterbox_geometry(image.height, image.width, spec)); // refuses an empty image
        total += aligned(pixel_bytes(image));
    }
    device_.reserve(total);
    host_.reserve(total);
    auto* host = static_cast<std::uint8_t*>(host_.data());
    auto* target = static_cast<std::uint8_t*>(device_.data());
    auto* table = reinterpret_cast<DeviceImage*>(host);
    std::size_t offset = table_bytes;
    for (std::size_t i = 0; i < images.size(); ++i) {
        table[i] = describe(images[i], spec, target + offset);
        offset += aligned(pixel_bytes(images[i]));
    }
    TRTW_CUDA(cudaMemcpyAsync(target, host, table_bytes, cudaMemcpyHostToDevice, stream));
    offset = table_bytes;
    for (const ImageView& image : images) {
        upload(image, host + offset, target + offset, stream);
        offset += aligned(pixel_bytes(image));
    }
    launch_letterbox(reinterpret_cast<const DeviceImage*>(target), static_cast<int>(images.size()), spec, output,
                     stream);
}

} // namespace trtw::vision
