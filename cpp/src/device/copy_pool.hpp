// Copies large host memory with several threads: one alone does not keep up with the way to the device. Needs no CUDA.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace trtw {

/// Threads that help callers with their pieces of work and sleep between jobs. Thread-safe; a caller never waits for a
/// helper that is busy elsewhere, it does more of the pieces itself. In a child process, which lacks the threads,
/// callers work alone; there the pool must not be destroyed.
class CopyPool {
public:
    /// Does one piece, on any thread: it must not throw.
    using Work = std::function<void(std::size_t piece)>;
    /// Told on the calling thread of pieces from `first` to before `end`, in order, once they and all before them are
    /// done: of all that are by then, as a command for the device takes long. May throw.
    using Done = std::function<void(std::size_t first, std::size_t end)>;

    /// `helpers`: how many threads there may be beside the callers; they start with the first job. So many of them,
    /// `pollers`, poll for callers that do.
    explicit CopyPool(int helpers, int pollers = 1);
    ~CopyPool();
    CopyPool(const CopyPool&) = delete;
    CopyPool& operator=(const CopyPool&) = delete;

    /// Whether sleeping helpers are woken for a job, which takes longer than to copy some 100 KiB.
    enum class Wake : bool { no, yes };

    /// Does pieces 0 to `pieces - 1`. No helper is at work on any of them when it returns or throws what `done` threw.
    void run(std::size_t pieces, const Work& work, const Done& done, Wake wake = Wake::yes);

    /// Told of every job of a caller that polls for the device. While they come at least every millisecond, helpers
    /// poll for the next. Returns whether one does.
    bool keeps_polling();

    /// Ends the helpers after the pieces that they are at. Callers go on alone.
    void stop() noexcept;

    /// The one pool of this process: up to three helpers, never more threads than processors or than the share of them
    /// that its container is given.
    static CopyPool& shared();

private:
    using Clock = std::chrono::steady_clock;
    struct Job;
    class Posted;

    void start();
    void help(bool may_poll) noexcept;
    void poll(std::unique_lock<std::mutex>& lock) noexcept;
    [[nodiscard]] bool is_polled() const noexcept { return Clock::now().time_since_epoch().count() < poll_until_; }
    [[nodiscard]] Job* open_job() const noexcept;
    std::size_t settle(Job& job, std::size_t piece, std::size_t told);

    const int helpers_;
    const int pollers_;
    const pid_t owner_;
    std::mutex mutex_;
    std::condition_variable posted_;
    std::vector<Job*> jobs_;
    std::vector<std::thread> threads_;
    bool started_ = false;
    std::atomic<bool> stopping_ = false;
    std::atomic<std::uint64_t> posts_ = 0;         ///< jobs so far
    std::atomic<Clock::rep> poll_until_ = 0;       ///< of the clock's epoch
    std::atomic<Clock::rep> last_polling_job_ = 0; ///< likewise
    std::atomic<int> polling_ = 0;                 ///< helpers that do
};

/// Work on at least so many bytes is shared between threads. For less, waking them costs more than it saves where one
/// thread copies fast; where it copies slowly, sharing would pay from a little less on.
constexpr std::size_t shared_copy_bytes = 2'000'000;

/// Work on at least so many bytes is cut into pieces, which a helper that polls shares.
constexpr std::size_t cut_copy_bytes = std::size_t{256} << 10U;

/// Of a piece of so many bytes of work: small enough to overlap with what comes after, large enough to be worth a call.
constexpr std::size_t piece_bytes(std::size_t bytes) {
    return std::size_t{bytes < shared_copy_bytes ? 128U : 512U} << 10U;
}

/// Does pieces that copy `bytes` together: in the process's pool where that is worth it, else on this thread alone.
/// `polls`: the caller polls for the device, so that a helper may poll for the caller.
void run_pieces(std::size_t bytes, std::size_t pieces, const CopyPool::Work& work, const CopyPool::Done& done,
                bool polls = false);

/// Told on the calling thread, in order, of what was copied.
using Copied = std::function<void(std::size_t offset, std::size_t bytes)>;

/// Copies memory that does not overlap in pieces, large memory with several threads. What `copied` throws ends the
/// copy; no thread touches either memory afterwards.
void copy_in_pieces(void* target, const void* source, std::size_t bytes, const Copied& copied, bool polls = false);

/// The same, where nobody waits for the pieces.
void copy_memory(void* target, const void* source, std::size_t bytes);

} // namespace trtw
