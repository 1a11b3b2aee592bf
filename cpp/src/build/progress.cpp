#include "build/progress.hpp"

#include "trtw/error.hpp"

namespace trtw {

bool Progress::report(std::string_view phase, int step, int total) noexcept {
    // The callback may wait for Python's interpreter lock, so the state is not locked while it runs; TensorRT's
    // threads are serialised by that lock or by the callback's own.
    try {
        {
            const std::scoped_lock lock{mutex_};
            if (refused_ || problem_) {
                return false;
            }
        }
        if (!callback_ || callback_(phase, step, total)) {
            return true;
        }
        const std::scoped_lock lock{mutex_};
        refused_ = true;
    } catch (...) {
        fail(std::current_exception());
    }
    return false;
}

void Progress::fail(std::exception_ptr problem) noexcept {
    const std::scoped_lock lock{mutex_};
    if (!problem_) {
        problem_ = std::move(problem);
    }
}

void Progress::throw_if_ended() const {
    const std::scoped_lock lock{mutex_};
    if (problem_) {
        std::rethrow_exception(problem_);
    }
    if (refused_) {
        throw Cancelled("The build was cancelled.");
    }
}

#if TRTW_TRT_PROGRESS_MONITOR
void ProgressMonitor::phaseStart(const char* phase, const char* /*parent*/, std::int32_t steps) noexcept {
    try {
        const std::scoped_lock lock{mutex_};
        totals_[phase] = steps;
    } catch (...) {
        progress_.fail(std::current_exception());
    }
    progress_.report(phase, 0, steps);
}

bool ProgressMonitor::stepComplete(const char* phase, std::int32_t step) noexcept {
    return progress_.report(phase, step + 1, total_of(phase));
}

void ProgressMonitor::phaseFinish(const char* phase) noexcept {
    const int total = total_of(phase);
    progress_.report(phase, total, total);
}

int ProgressMonitor::total_of(const std::string& phase) noexcept {
    const std::scoped_lock lock{mutex_};
    const auto found = totals_.find(phase);
    return found != totals_.end() ? found->second : 0;
}
#endif

} // namespace trtw
