#include "trtw/vision/letterbox_gpu.hpp"

#include "trtw/device/check.hpp"
#include "trtw/device/copy_pool.hpp"
#include "trtw/device/range.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

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

std::size_t pitch(const DeviceImage& item) {
    return static_cast<std::size_t>(item.row_bytes);
}

std::size_t pixel_bytes(const DeviceImage& item) {
    return pitch(item) * static_cast<std::size_t>(staged_rows(item));
}

// Rows that are copied, and then transferred, in one go.
struct Piece {
    std::size_t image;
    int first;
    int count;
};

void split(std::vector<Piece>& pieces, std::size_t image, const DeviceImage& item) {
    const int rows = staged_rows(item);
    const int rows_per_piece = static_cast<int>(std::max<std::size_t>(piece_bytes / pitch(item), 1));
    for (int first = 0; first < rows; first += rows_per_piece) {
        pieces.push_back({image, first, std::min(rows_per_piece, rows - first)});
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
    std::vector<DeviceImage> items;
    std::vector<std::size_t> offsets;
    std::vector<Piece> pieces;
    items.reserve(images.size());
    offsets.reserve(images.size());
    std::size_t total = table_bytes;
    for (const ImageView& image : images) {
        items.push_back(stage(image, spec));
        offsets.push_back(total);
        total += aligned(pixel_bytes(items.back()));
        split(pieces, items.size() - 1, items.back());
    }
    device_.reserve(total);
    host_.reserve(total);
    auto* host = static_cast<std::uint8_t*>(host_.data());
    auto* target = static_cast<std::uint8_t*>(device_.data());
    for (std::size_t i = 0; i < items.size(); ++i) {
        items[i].pixels = target + offsets[i];
    }
    std::copy(items.begin(), items.end(), reinterpret_cast<DeviceImage*>(host));
    const auto offset_of = [&](const Piece& piece) {
        return offsets[piece.image] + static_cast<std::size_t>(piece.first) * pitch(items[piece.image]);
    };
    const auto copy = [&](std::size_t index) {
        const Piece& piece = pieces[index];
        copy_rows(images[piece.image], items[piece.image], piece.first, piece.count, host + offset_of(piece));
    };
    const auto transfer = [&](std::size_t index) {
        const Piece& piece = pieces[index];
        const std::size_t end = offset_of(piece) + static_cast<std::size_t>(piece.count) * pitch(items[piece.image]);
        const std::size_t begin = index == 0 ? 0 : offset_of(piece); // the table lies before the first piece
        TRTW_CUDA(cudaMemcpyAsync(target + begin, host + begin, end - begin, cudaMemcpyHostToDevice, stream));
    };
    device::run_pieces(total, pieces.size(), std::ref(copy), std::ref(transfer));
    launch_letterbox(reinterpret_cast<const DeviceImage*>(target), static_cast<int>(images.size()), spec, output,
                     stream);
}

} // namespace trtw::vision
