#include "trtw/engine/logger.hpp"

namespace trtw::engine {

void Logger::log(Severity severity, const nvinfer1::AsciiChar* text) noexcept {
    buffer_.add(static_cast<engine::Severity>(severity), text != nullptr ? text : "");
}

Logger& logger() noexcept {
    static Logger& instance = *new Logger; // NOLINT(cppcoreguidelines-owning-memory)
    return instance;
}

} // namespace trtw::engine
