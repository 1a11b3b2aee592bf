// Images to boxes in one call: letterbox, engine, and what its outputs say, in one CUDA graph.
#pragma once

#include "trtw/head.hpp"
#include "trtw/runner.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace trtw {

class HeadGpu;

/// A runner whose calls end in boxes. Thread-safe.
class Detector {
public:
    /// Throws UsageProblem for a spec that makes no sense or options that do not fit the engine, OutOfMemory or
    /// DeviceFailure.
    Detector(std::shared_ptr<const Plan> plan, RunnerOptions options, HeadSpec spec,
             std::function<void()> while_waiting = {});
    ~Detector();
    Detector(const Detector&) = delete;
    Detector& operator=(const Detector&) = delete;

    /// As Runner::run. Throws UsageProblem for outputs that do not fit the spec, too.
    Runner::Finished run(const Call& call) { return runner_->run(call); }
    /// Of the images of a call.
    [[nodiscard]] std::vector<FoundBoxes> found(const Runner::Finished& finished) const;

    [[nodiscard]] const Runner& runner() const noexcept { return *runner_; }

private:
    HeadSpec spec_;
    std::vector<std::unique_ptr<HeadGpu>> heads_; ///< one a slot; before the slots, whose graphs hold its memory
    std::unique_ptr<Runner> runner_;
};

} // namespace trtw
