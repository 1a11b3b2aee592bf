// The errors of the core. Python sees classes of the same names, all deriving from NativeError.
#pragma once

#include <stdexcept>
#include <string>

namespace trtw {

/// Base of every error that the core raises on purpose.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The request cannot be served as it stands: a wrong option, shape, dtype, name or file.
class UsageProblem : public Error {
public:
    using Error::Error;
};

/// A library, header set or feature that the request needs is not there.
class ComponentMissing : public Error {
public:
    using Error::Error;
};

/// The GPU or its driver failed: out of memory, lost, or not initialised.
class DeviceFailure : public Error {
public:
    using Error::Error;
};

/// Device or pinned host memory could not be had. What was allocated before stays valid.
class OutOfMemory : public DeviceFailure {
public:
    using DeviceFailure::DeviceFailure;
};

/// The GPU failed for good: every later call of this process fails, too.
class DeviceLost : public DeviceFailure {
public:
    using DeviceFailure::DeviceFailure;
};

/// A check of results or contents did not hold.
class CheckFailed : public Error {
public:
    using Error::Error;
};

/// The caller asked for the end of a long operation. Python sees `Cancelled`.
class Cancelled : public Error {
public:
    using Error::Error;
};

} // namespace trtw
