#include "trt/logger.hpp"

namespace trtw {

void Logger::log(Severity severity, const nvinfer1::AsciiChar* text) noexcept {
    buffer_.add(static_cast<trtw::Severity>(severity), text != nullptr ? text : "");
}

Logger& logger() noexcept {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory,bugprone-unhandled-exception-at-new)
    static Logger& instance = *new Logger;
    return instance;
}

} // namespace trtw
