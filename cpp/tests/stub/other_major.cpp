// A libnvinfer of a major version that no core is built for.
#include <cstdint>

extern "C" __attribute__((visibility("default"))) std::int32_t getInferLibVersion() noexcept;

std::int32_t getInferLibVersion() noexcept {
    return 999900;
}
