// Progress of a build, and its cancellation.
#pragma once

#include "trt/version.hpp"
#include "trtw/builder.hpp"

#include <NvInfer.h>

#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace trtw {

/// Calls the callback and remembers its refusal or exception.
class Progress {
public:
    explicit Progress(ProgressCallback callback) : callback_{std::move(callback)} {}

    /// False once the build is to end.
    bool report(std::string_view phase, int step, int total) noexcept;

    /// Ends the build with an exception that arose elsewhere (in a calibrator's source).
    void fail(std::exception_ptr problem) noexcept;

    /// Throws the remembered exception, or Cancelled after a refusal; does nothing where all is well.
    void throw_if_ended() const;

private:
    ProgressCallback callback_;
    mutable std::mutex mutex_;
    bool refused_ = false;
    std::exception_ptr problem_;
};

#if TRTW_TRT_PROGRESS_MONITOR
/// Passes TensorRT's nested phases on.
class ProgressMonitor final : public nvinfer1::IProgressMonitor {
public:
    explicit ProgressMonitor(Progress& progress) : progress_{progress} {}

    void phaseStart(const char* phase, const char* parent, std::int32_t steps) noexcept override;
    bool stepComplete(const char* phase, std::int32_t step) noexcept override;
    void phaseFinish(const char* phase) noexcept override;

private:
    int total_of(const std::string& phase) noexcept;

    Progress& progress_;
    std::mutex mutex_;
    std::map<std::string, int> totals_;
};
#endif

} // namespace trtw
