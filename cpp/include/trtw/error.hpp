// The errors of the core. Python sees classes of the same names, all deriving from NativeError.
#pragma once

#include <stdexcept>
#include <string>

namespace trtw {

/// What kind of error it is. As exit statuses, 1 to 4 are those of trt-workbench's commands.
enum class ErrorCode {
    check_failed = 1,
    usage,
    component_missing,
    device_failure,
    out_of_memory,
    device_lost,
    cancelled
};

/// Base of every error that the core raises on purpose.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
    [[nodiscard]] virtual ErrorCode code() const noexcept = 0;
};

/// The request cannot be served as it stands: a wrong option, shape, dtype, name or file.
class UsageProblem : public Error {
public:
    using Error::Error;
    [[nodiscard]] ErrorCode code() const noexcept override { return ErrorCode::usage; }
};

/// A library, header set or feature that the request needs is not there.
class ComponentMissing : public Error {
public:
    using Error::Error;
    [[nodiscard]] ErrorCode code() const noexcept override { return ErrorCode::component_missing; }
};

/// The GPU or its driver failed: out of memory, lost, or not initialised.
class DeviceFailure : public Error {
public:
    using Error::Error;
    [[nodiscard]] ErrorCode code() const noexcept override { return ErrorCode::device_failure; }
};

/// Device or pinned host memory could not be had. What was allocated before stays valid.
class OutOfMemory : public DeviceFailure {
public:
    using DeviceFailure::DeviceFailure;
    [[nodiscard]] ErrorCode code() const noexcept override { return ErrorCode::out_of_memory; }
};

/// The GPU failed for good: every later call of this process fails, too.
class DeviceLost : public DeviceFailure {
public:
    using DeviceFailure::DeviceFailure;
    [[nodiscard]] ErrorCode code() const noexcept override { return ErrorCode::device_lost; }
};

/// A check of results or contents did not hold.
class CheckFailed : public Error {
public:
    using Error::Error;
    [[nodiscard]] ErrorCode code() const noexcept override { return ErrorCode::check_failed; }
};

/// The caller asked for the end of a long operation. Python sees `Cancelled`.
class Cancelled : public Error {
public:
    using Error::Error;
    [[nodiscard]] ErrorCode code() const noexcept override { return ErrorCode::cancelled; }
};

} // namespace trtw
