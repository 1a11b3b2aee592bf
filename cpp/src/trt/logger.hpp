// The process-wide logger that every TensorRT object is created with.
#pragma once

#include "trt/log_buffer.hpp"

#include <NvInferRuntime.h>

namespace trtw {

/// Hands TensorRT's lines to a LogBuffer. Never touches Python, so it may be called from any thread.
class Logger final : public nvinfer1::ILogger {
public:
    void log(Severity severity, const nvinfer1::AsciiChar* text) noexcept override;

    [[nodiscard]] LogBuffer& buffer() noexcept { return buffer_; }

private:
    LogBuffer buffer_;
};

/// The one logger. TensorRT keeps a pointer to the logger of the first object it made, so it is never destroyed.
Logger& logger() noexcept;

} // namespace trtw
