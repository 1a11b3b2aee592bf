#include "device/copy_pool.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <system_error>

namespace trtw {

namespace {

using std::chrono::microseconds;

constexpr int most_helpers = 3; // chosen, not measured: the memory they share is soon the limit
// A caller and helpers that poll leave half of the processors to others.
constexpr int least_helpers_to_poll = 3;
constexpr int processors_for_two_pollers = 6;
constexpr microseconds polled{1000};
// A helper is at its last piece for at most so long; to sleep until then takes longer.
constexpr microseconds last_piece{100};

// How many processors' time a container is given (control groups, version 2); all there are without a limit.
int processors_granted(int there_are) {
    std::ifstream file{"/sys/fs/cgroup/cpu.max"};
    long long quota = 0;
    long long period = 0;
    return file >> quota >> period && period > 0 ? static_cast<int>(std::min<long long>(quota / period, there_are))
                                                 : there_are;
}

int processors_of_process() {
    cpu_set_t processors;
    CPU_ZERO(&processors);
    return sched_getaffinity(0, sizeof processors, &processors) == 0 ? processors_granted(CPU_COUNT(&processors)) : 1;
}

void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

// Waits for what another thread does within microseconds, else asleep.
void wait_briefly(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, const auto& condition) {
    const auto end = std::chrono::steady_clock::now() + last_piece;
    while (!condition() && std::chrono::steady_clock::now() < end) {
        lock.unlock();
        pause();
        lock.lock();
    }
    changed.wait(lock, condition);
}

void run_alone(std::size_t pieces, const CopyPool::Work& work, const CopyPool::Done& done) {
    for (std::size_t piece = 0; piece < pieces; ++piece) {
        work(piece);
        done(piece, piece + 1);
    }
}

// No function-local static: a child forked while another thread initialises one would wait for it for ever.
std::atomic<CopyPool*> process_pool = nullptr;

// The pool is leaked, as threads may still copy while the process exits; only its helpers end here, so that none is
// left when this library is unloaded.
struct StopAtExit {
    ~StopAtExit() {
        if (CopyPool* pool = process_pool.load()) {
            pool->stop();
        }
    }
};
const StopAtExit stop_at_exit;

// Signals are for the program's own threads, but for those that a thread causes itself.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t blocked;
        sigfillset(&blocked);
        for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
            sigdelset(&blocked, own);
        }
        pthread_sigmask(SIG_SETMASK, &blocked, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_{};
};

} // namespace

// Lives on its caller's stack; all but `next` is guarded by the pool's mutex.
struct CopyPool::Job {
    Job(std::size_t count, const Work& piece_work) : work{piece_work}, pieces{count}, done(count) {}

    const Work& work;
    const std::size_t pieces;
    std::atomic<std::size_t> next = 0; ///< the first piece that nobody took
    std::vector<bool> done;
    int helpers = 0;
    std::condition_variable changed; ///< notified with the mutex held: the caller may leave as soon as it gets that
};

// While it lives, helpers may find the job; its end waits for those who did.
class CopyPool::Posted {
public:
    Posted(CopyPool& pool, Job& job, Wake wake) : pool_{pool}, job_{job} {
        {
            const std::scoped_lock lock{pool_.mutex_};
            pool_.start();
            pool_.jobs_.push_back(&job_); // last: what throws before leaves nobody a job that is gone
        }
        ++pool_.posts_;
        if (wake == Wake::yes) {
            pool_.posted_.notify_all();
        }
    }
    ~Posted() {
        job_.next.store(job_.pieces, std::memory_order_relaxed); // the rest stays undone if the caller threw
        std::unique_lock lock{pool_.mutex_};
        std::erase(pool_.jobs_, &job_);
        wait_briefly(lock, job_.changed, [this] { return job_.helpers == 0; });
    }
    Posted(const Posted&) = delete;
    Posted& operator=(const Posted&) = delete;

private:
    CopyPool& pool_;
    Job& job_;
};

CopyPool::CopyPool(int helpers, int pollers) : helpers_{helpers}, pollers_{pollers}, owner_{getpid()} {
    threads_.reserve(static_cast<std::size_t>(std::max(helpers, 0)));
}

CopyPool::~CopyPool() {
    stop();
}

CopyPool& CopyPool::shared() {
    CopyPool* pool = process_pool.load();
    if (pool == nullptr) {
        const int processors = processors_of_process();
        auto made = std::make_unique<CopyPool>(std::clamp(processors - 1, 0, most_helpers),
                                               processors < processors_for_two_pollers ? 1 : 2);
        if (process_pool.compare_exchange_strong(pool, made.get())) {
            pool = made.release();
        }
    }
    return *pool;
}

bool CopyPool::keeps_polling() {
    if (helpers_ < least_helpers_to_poll || getpid() != owner_) {
        return false;
    }
    const Clock::rep now = Clock::now().time_since_epoch().count();
    const Clock::rep before = last_polling_job_.exchange(now);
    if (now - before >= Clock::duration{polled}.count()) {
        return false;
    }
    poll_until_ = now + Clock::duration{polled}.count();
    if (polling_ < pollers_) {
        {
            const std::scoped_lock lock{mutex_};
            start();
        }
        posted_.notify_all(); // those that may not poll sleep on
    }
    return polling_ > 0;
}

void CopyPool::run(std::size_t pieces, const Work& work, const Done& done, Wake wake) {
    // A child process must not even lock: whoever held the mutex in its parent does not exist here.
    if (pieces < 2 || helpers_ <= 0 || getpid() != owner_) {
        run_alone(pieces, work, done);
        return;
    }
    Job job{pieces, work};
    const Posted posted{*this, job, wake};
    for (std::size_t told = 0; told < pieces;) {
        const std::size_t piece = job.next.fetch_add(1, std::memory_order_relaxed);
        if (piece < pieces) {
            work(piece);
        }
        const std::size_t ready = settle(job, piece, told);
        if (ready > told) {
            done(told, ready);
            told = ready;
        }
    }
}

// Notes that the caller did `piece` and returns how many pieces from the first on are done. Where there was no piece
// left to do, it waits for the helper that is at the first one untold.
std::size_t CopyPool::settle(Job& job, std::size_t piece, std::size_t told) {
    std::unique_lock lock{mutex_};
    if (piece < job.pieces) {
        job.done[piece] = true;
    } else {
        wait_briefly(lock, job.changed, [&] { return job.done[told]; });
    }
    while (told < job.pieces && job.done[told]) {
        ++told;
    }
    return told;
}

void CopyPool::start() {
    if (started_ || stopping_) {
        return;
    }
    started_ = true;
    const SignalsBlocked blocked;
    try {
        while (threads_.size() < static_cast<std::size_t>(helpers_)) {
            const bool may_poll = threads_.size() < static_cast<std::size_t>(pollers_);
            threads_.emplace_back([this, may_poll] { help(may_poll); });
            pthread_setname_np(threads_.back().native_handle(), "trtw-copy");
        }
    } catch (const std::system_error&) {
        // The system gives no more threads: those that there are, or the caller alone, do the work.
    }
}

void CopyPool::stop() noexcept {
    if (getpid() != owner_) {
        return;
    }
    std::vector<std::thread> threads;
    {
        const std::scoped_lock lock{mutex_};
        stopping_ = true;
        threads.swap(threads_);
    }
    posted_.notify_all();
    for (std::thread& thread : threads) {
        thread.join();
    }
}

// The job with the fewest helpers among those that have pieces left.
CopyPool::Job* CopyPool::open_job() const noexcept {
    Job* best = nullptr;
    for (Job* job : jobs_) {
        const bool open = job->next.load(std::memory_order_relaxed) < job->pieces;
        if (open && (best == nullptr || job->helpers < best->helpers)) {
            best = job;
        }
    }
    return best;
}

// Returns once there is a new job, or it is time to sleep.
void CopyPool::poll(std::unique_lock<std::mutex>& lock) noexcept {
    const std::uint64_t known = posts_;
    ++polling_;
    lock.unlock();
    while (posts_ == known && !stopping_ && is_polled()) {
        pause();
    }
    lock.lock();
    --polling_;
}

void CopyPool::help(bool may_poll) noexcept {
    std::unique_lock lock{mutex_};
    while (true) {
        Job* job = nullptr;
        posted_.wait(lock, [&] { return stopping_ || (job = open_job()) != nullptr || (may_poll && is_polled()); });
        if (stopping_) {
            return;
        }
        if (job == nullptr) {
            poll(lock);
            continue;
        }
        ++job->helpers;
        while (!stopping_) {
            const std::size_t piece = job->next.fetch_add(1, std::memory_order_relaxed);
            if (piece >= job->pieces) {
                break;
            }
            lock.unlock();
            job->work(piece);
            lock.lock();
            job->done[piece] = true;
            job->changed.notify_one();
        }
        --job->helpers;
        job->changed.notify_one();
    }
}

void run_pieces(std::size_t bytes, std::size_t pieces, const CopyPool::Work& work, const CopyPool::Done& done,
                bool polls) {
    if (bytes >= shared_copy_bytes) {
        CopyPool::shared().run(pieces, work, done);
    } else if (polls && bytes >= cut_copy_bytes && CopyPool::shared().keeps_polling()) {
        CopyPool::shared().run(pieces, work, done, CopyPool::Wake::no);
    } else {
        run_alone(pieces, work, done);
    }
}

void copy_in_pieces(void* target, const void* source, std::size_t bytes, const Copied& copied, bool polls) {
    auto* to = static_cast<std::byte*>(target);
    const auto* from = static_cast<const std::byte*>(source);
    const std::size_t most = piece_bytes(bytes);
    const auto size_of = [&](std::size_t first, std::size_t end) { return std::min(end * most, bytes) - first * most; };
    const auto copy = [&](std::size_t piece) {
        std::memcpy(to + piece * most, from + piece * most, size_of(piece, piece + 1));
    };
    const auto tell = [&](std::size_t first, std::size_t end) { copied(first * most, size_of(first, end)); };
    run_pieces(bytes, (bytes + most - 1) / most, std::ref(copy), std::ref(tell), polls);
}

void copy_memory(void* target, const void* source, std::size_t bytes) {
    if (bytes < shared_copy_bytes) {
        if (bytes > 0) {
            std::memcpy(target, source, bytes);
        }
        return;
    }
    copy_in_pieces(target, source, bytes, [](std::size_t, std::size_t) {});
}

} // namespace trtw
