// A bounded, thread-safe record of TensorRT's log lines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace trtw {

/// In TensorRT's order: the smaller, the graver.
enum class Severity : int { internal_error = 0, error = 1, warning = 2, info = 3, verbose = 4 };

/// The name of a severity as Python sees it ("internal_error" to "verbose").
std::string_view severity_name(Severity severity) noexcept;

/// The severity of a name; throws UsageProblem for an unknown one.
Severity parse_severity(std::string_view name);

/// Whether a text holds one of the phrases.
bool mentions_any(std::string_view text, std::initializer_list<std::string_view> phrases) noexcept;

/// Whether TensorRT's words tell of exhausted memory rather than of the model.
bool speaks_of_memory(std::string_view log) noexcept;

/// Whether they tell of that or of a failed GPU.
bool speaks_of_device(std::string_view log) noexcept;

struct LogLine {
    std::uint64_t sequence; ///< counts every line ever accepted, from 0
    Severity severity;
    std::string text;
    std::thread::id thread; ///< that logged it
};

/// Keeps the newest lines. Lines graver than the threshold, or equal to it, are kept; others are dropped.
class LogBuffer {
public:
    explicit LogBuffer(std::size_t capacity = 8192) : capacity_{capacity} {}

    void set_threshold(Severity threshold) noexcept;
    [[nodiscard]] Severity threshold() const noexcept;

    /// Never throws: TensorRT calls it from noexcept code. A line is lost when memory is exhausted.
    void add(Severity severity, std::string_view text) noexcept;

    /// Lines since the last drain that are still held.
    std::vector<LogLine> drain();

    /// Lines with sequence >= first and a severity of at_most or graver that are still held.
    [[nodiscard]] std::vector<LogLine> since(std::uint64_t first, Severity at_most) const;

    /// The sequence number that the next line gets. Takes no lock: every launch of an engine asks for it.
    [[nodiscard]] std::uint64_t next_sequence() const noexcept { return next_.load(std::memory_order_relaxed); }

private:
    mutable std::mutex mutex_;
    std::deque<LogLine> lines_;
    std::size_t capacity_;
    std::atomic<std::uint64_t> next_ = 0; ///< written under the mutex
    std::uint64_t drained_ = 0;
    Severity threshold_ = Severity::info;
};

/// Remembers a place in a buffer, so that an error can quote what TensorRT said since.
class LogCapture {
public:
    /// Whose lines count. A build logs from threads of its own.
    enum class Of { any_thread, this_thread };

    explicit LogCapture(const LogBuffer& buffer, Of of = Of::any_thread)
        : buffer_{buffer}, first_{buffer.next_sequence()}, of_{of} {}

    /// The error lines since construction, without repetitions, joined by "; ". Empty where there are none. Those about
    /// timing caches, without which a build goes on, are left out unless there are no others.
    [[nodiscard]] std::string errors() const;

    /// The warning lines since construction, without repetitions.
    [[nodiscard]] std::vector<std::string> warnings() const;

    /// How many lines of the given severity or graver hold the text.
    [[nodiscard]] std::size_t count(std::string_view text, Severity at_most = Severity::verbose) const;

private:
    [[nodiscard]] std::vector<LogLine> lines(Severity at_most) const;

    const LogBuffer& buffer_;
    std::uint64_t first_;
    Of of_;
};

} // namespace trtw
