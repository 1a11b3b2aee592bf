// Copies large host memory with several threads: one alone does not keep up with the way to the device. Needs no CUDA.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
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
    /// Told on the calling thread of every piece, in order, once it and all before it are done. May throw.
    using Done = std::function<void(std::size_t piece)>;

    /// `helpers`: how many threads there may be beside the callers; they start with the first job.
    explicit CopyPool(int helpers);
    ~CopyPool();
    CopyPool(const CopyPool&) = delete;
    CopyPool& operator=(const CopyPool&) = delete;

    /// Does pieces 0 to `pieces - 1`. No helper is at work on any of them when it returns or throws what `done` threw.
    void run(std::size_t pieces, const Work& work, const Done& done);

    /// Ends the helpers after the pieces that they are at. Callers go on alone.
    void stop() noexcept;

    /// The one pool of this process: up to three helpers, never more threads than processors.
    static CopyPool& shared();

private:
    struct Job;
    class Posted;

    void start();
    void help() noexcept;
    [[nodiscard]] Job* open_job() const noexcept;
    std::size_t settle(Job& job, std::size_t piece, std::size_t told);

    const int helpers_;
    const pid_t owner_;
    std::mutex mutex_;
    std::condition_variable posted_;
    std::vector<Job*> jobs_;
    std::vector<std::thread> threads_;
    bool started_ = false;
    bool stopping_ = false;
};

/// Work on at least so many bytes is shared between threads. For less, waking them costs more than it saves where one
/// thread copies fast; where it copies slowly, sharing would pay from a little less on.
constexpr std::size_t shared_copy_bytes = 2'000'000;

/// Does pieces that copy `bytes` together: in the process's pool where that is worth it, else on this thread alone.
void run_pieces(std::size_t bytes, std::size_t pieces, const CopyPool::Work& work, const CopyPool::Done& done);

/// Told on the calling thread, in order, of what was copied.
using Copied = std::function<void(std::size_t offset, std::size_t bytes)>;

/// Copies memory that does not overlap in pieces of 512 KiB, large memory with several threads. What `copied` throws
/// ends the copy; no thread touches either memory afterwards.
void copy_in_pieces(void* target, const void* source, std::size_t bytes, const Copied& copied);

/// The same, where nobody waits for the pieces.
void copy_memory(void* target, const void* source, std::size_t bytes);

} // namespace trtw
