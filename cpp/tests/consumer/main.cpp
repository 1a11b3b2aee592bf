// Says which TensorRT the core was built for and which one it finds, and letterboxes an image, which needs neither.
#include <trtw/error.hpp>
#include <trtw/letterbox.hpp>
#include <trtw/library.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

int main() {
    const trtw::LibraryStatus status = trtw::library_status();
    std::printf("TensorRT headers: %s\n", status.headers.empty() ? "none" : status.headers.c_str());
    std::printf("TensorRT: %s\n", status.available ? status.version.c_str() : status.error.c_str());

    const std::vector<std::uint8_t> pixels(2 * 4 * 3, 128);
    const trtw::LetterboxSpec spec{.height = 8, .width = 8};
    std::vector<std::byte> tensor(spec.item_bytes());
    trtw::letterbox_cpu({pixels.data(), 2, 4, 12}, spec, tensor.data());
    try {
        trtw::letterbox_cpu({}, spec, tensor.data());
    } catch (const trtw::UsageProblem& problem) {
        std::printf("refused: %s\n", problem.what());
        return 0;
    }
    return 1;
}
