#include "vision/jpeg_decoder.hpp"

#include "fake_cuda.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/error.hpp"
#include "trtw/letterbox_gpu.hpp"
#include "vision_specs.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace trtw;

namespace {

// As far as a header goes: what the double of nvJPEG reads.
std::vector<std::uint8_t> jpeg(int height, int width, int components = 3, std::uint8_t kind = 0xC0,
                               std::uint8_t last = 9) {
    const auto byte = [](int value) { return static_cast<std::uint8_t>(value); };
    return {0xFF,
            0xD8,
            0xFF,
            kind,
            0,
            8,
            8,
            byte(height / 256),
            byte(height % 256),
            byte(width / 256),
            byte(width % 256),
            byte(components),
            last};
}

std::vector<std::uint8_t> pattern(int height, int width, int last = 9) {
    std::vector<std::uint8_t> pixels;
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < 3 * width; ++x) {
            pixels.push_back(static_cast<std::uint8_t>(13 * y + 7 * x + last));
        }
    }
    return pixels;
}

std::vector<std::uint8_t> pixels_of(const DecodedImage& image) {
    const auto* first = static_cast<const std::uint8_t*>(image.block->data());
    return {first, first + std::ptrdiff_t{3} * image.width * image.height};
}

ImageView view_of(const DecodedImage& image, int device) {
    return {static_cast<const std::uint8_t*>(image.block->data()), image.height, image.width,
            std::ptrdiff_t{3} * image.width, device};
}

} // namespace

TEST_CASE("a library that is not there, or is another, is a missing component") {
    CHECK_THROWS_AS(JpegDecoder("libnvjpeg-that-is-not-there.so", 0), ComponentMissing);
    CHECK_THROWS_AS(JpegDecoder("libc.so.6", 0), ComponentMissing);
}

TEST_CASE("pixels are in device memory when the call returns") {
    JpegDecoder decoder{TRTW_FAKE_NVJPEG, 1};
    CHECK(decoder.version() == "12.4.0");
    CHECK(decoder.device() == 1);
    CHECK(fake::device() == 0);
    const auto image = decoder.decode(jpeg(5, 7));
    REQUIRE(image);
    CHECK(image->height == 5);
    CHECK(image->width == 7);
    CHECK(pixels_of(*image) == pattern(5, 7));
    CHECK(fake::device() == 0);
}

TEST_CASE("what nvJPEG does not decode is left to others, and what comes next is decoded") {
    JpegDecoder decoder{TRTW_FAKE_NVJPEG, 0};
    CHECK_FALSE(decoder.decode(jpeg(5, 7, 1)));
    CHECK_FALSE(decoder.decode(jpeg(5, 7, 4)));
    CHECK_FALSE(decoder.decode(jpeg(5, 7, 3, 0xC2)));
    CHECK_FALSE(decoder.decode(jpeg(0, 7)));
    CHECK_FALSE(decoder.decode({}));
    CHECK_THROWS_AS(static_cast<void>(decoder.decode(jpeg(5, 4096))), OutOfMemory);
    CHECK(decoder.decode(jpeg(5, 7)));
}

TEST_CASE("memory of images that are gone is used again, that of others is left alone") {
    JpegDecoder decoder{TRTW_FAKE_NVJPEG, 0};
    auto first = decoder.decode(jpeg(20, 30));
    const auto second = decoder.decode(jpeg(20, 30, 3, 0xC0, 1));
    REQUIRE((first && second));
    const void* address = first->block->data();
    CHECK(second->block->data() != address);
    first.reset();
    const std::size_t before = fake::allocations();
    const auto third = decoder.decode(jpeg(21, 29, 3, 0xC0, 2));
    REQUIRE(third);
    CHECK(third->block->data() == address);
    CHECK(fake::allocations() == before);
    CHECK(pixels_of(*second) == pattern(20, 30, 1));
    CHECK(pixels_of(*third) == pattern(21, 29, 2));
}

TEST_CASE("an image outlives its decoder") {
    std::optional<DecodedImage> image;
    {
        JpegDecoder decoder{TRTW_FAKE_NVJPEG, 0};
        image = decoder.decode(jpeg(5, 7));
    }
    CHECK(pixels_of(*image) == pattern(5, 7));
}

TEST_CASE("threads decode side by side") {
    JpegDecoder decoder{TRTW_FAKE_NVJPEG, 0};
    std::vector<std::thread> threads;
    std::vector<int> wrong(4);
    for (std::size_t t = 0; t < wrong.size(); ++t) {
        threads.emplace_back([&, t] {
            for (int turn = 0; turn < 50; ++turn) {
                const int height = 1 + turn % 9;
                const auto last = static_cast<std::uint8_t>(16 * t + static_cast<unsigned>(turn));
                const auto image = decoder.decode(jpeg(height, 8, 3, 0xC0, last));
                wrong[t] += !image || pixels_of(*image) != pattern(height, 8, last);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("an image on the device is letterboxed where it lies") {
    JpegDecoder decoder{TRTW_FAKE_NVJPEG, 0};
    LetterboxGpu letterbox;
    const Stream stream;
    for (const int side : {8, 24, 200}) { // less than half of the image, less, and more
        const LetterboxSpec spec = grey_level_spec(side, side);
        const auto image = decoder.decode(jpeg(50, 40));
        REQUIRE(image);
        const std::vector<std::uint8_t> ordinary = pattern(30, 60);
        const ImageView there = view_of(*image, 0);
        const ImageView here{ordinary.data(), 30, 60, 180};
        std::vector<std::uint8_t> found(2 * spec.item_bytes());
        std::vector<std::uint8_t> expected(2 * spec.item_bytes());
        CHECK(letterbox.enqueue(std::vector{there, here}, spec, found.data(), stream.get()) == 0);
        stream.synchronize();
        letterbox_cpu(there, spec, expected.data());
        letterbox_cpu(here, spec, expected.data() + spec.item_bytes());
        CHECK(found == expected);
    }
}

TEST_CASE("an ordinary image is copied in pieces, by a helper that polls, too") {
    const Stream stream;
    const LetterboxSpec spec = grey_level_spec(320, 320);
    const std::vector<std::uint8_t> pixels = pattern(300, 400); // 352 KiB, in pieces of 128 KiB
    const ImageView image{pixels.data(), 300, 400, 1200};
    std::vector<std::uint8_t> expected(spec.item_bytes());
    letterbox_cpu(image, spec, expected.data());
    for (const bool polls : {false, true}) {
        LetterboxGpu letterbox{polls};
        for (int turn = 0; turn < 20; ++turn) {
            std::vector<std::uint8_t> found(spec.item_bytes());
            const std::size_t before = fake::copies_from(nullptr, SIZE_MAX);
            letterbox.enqueue(std::vector{image}, spec, found.data(), stream.get());
            const std::size_t copies = fake::copies_from(nullptr, SIZE_MAX) - before;
            CHECK(copies >= (polls ? 1 : 3)); // pieces that are done by then go together
            CHECK(copies <= 3);
            stream.synchronize();
            CHECK(found == expected);
        }
    }
}

TEST_CASE("images on the device need no staging memory, and have to be on the letterbox's") {
    JpegDecoder decoder{TRTW_FAKE_NVJPEG, 0};
    LetterboxGpu letterbox;
    const Stream stream;
    LetterboxSpec spec = grey_level_spec(8, 8);
    spec.layout = Layout::hwc8;
    const auto image = decoder.decode(jpeg(50, 40));
    std::vector<std::uint8_t> found(spec.item_bytes(), 1);
    std::vector<std::uint8_t> expected(spec.item_bytes());
    letterbox_cpu(view_of(*image, 0), spec, expected.data());
    letterbox.enqueue(std::vector{view_of(*image, 0)}, spec, found.data(), stream.get());
    stream.synchronize();
    CHECK(found == expected);
    CHECK(letterbox.pinned_bytes() + letterbox.device_bytes() == 0);
    CHECK_THROWS_AS(letterbox.enqueue(std::vector{view_of(*image, 1)}, spec, found.data(), stream.get()), UsageProblem);
}
