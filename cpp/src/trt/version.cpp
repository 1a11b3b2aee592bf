#include "trt/version.hpp"

#include "trt/entry_points.hpp"

namespace trtw {

namespace {

std::string minor_text(std::int32_t number) {
    const std::string text = version_text(number);
    return text.substr(0, text.rfind('.'));
}

std::int32_t used_version() noexcept {
    const std::int32_t library = library_version();
    return library != 0 ? library : TRTW_TRT_VERSION;
}

} // namespace

bool has(int major, int minor) noexcept {
    return TRTW_TRT_AT_LEAST(major, minor) && is_at_least(used_version(), major, minor);
}

std::string version_in_words() {
    const std::string used = minor_text(used_version());
    const bool hidden = used_version() / 100 > TRTW_TRT_VERSION / 100;
    return "TensorRT " + used + (hidden ? " (headers of " TRTW_TRT_VERSION_TEXT ")" : "");
}

} // namespace trtw
