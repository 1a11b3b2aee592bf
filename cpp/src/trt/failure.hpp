// What a failure inside TensorRT was: TensorRT has no codes for it, only CUDA's last error and its own log.
#pragma once

#include <string>

namespace trtw {

/// Throws OutOfMemory or DeviceLost where CUDA's last error, which is cleared, or the log tells of that.
/// `what` was going on, such as "running the engine".
/// `hint` ends the message about memory.
void raise_if_device(const std::string& what, const std::string& log, const std::string& hint = "");

/// The same, and DeviceFailure otherwise.
[[noreturn]] void raise_device(const std::string& what, const std::string& log);

} // namespace trtw
