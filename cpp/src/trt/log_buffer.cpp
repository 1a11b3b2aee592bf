#include "trt/log_buffer.hpp"

#include "trt/joined.hpp"
#include "trtw/error.hpp"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace trtw {

namespace {

constexpr std::array<std::string_view, 5> severity_names = {"internal_error", "error", "warning", "info", "verbose"};

std::vector<std::string> unique_texts(const std::vector<LogLine>& lines) {
    std::vector<std::string> texts;
    std::unordered_set<std::string_view> seen;
    for (const LogLine& line : lines) {
        if (seen.insert(line.text).second) {
            texts.push_back(line.text);
        }
    }
    return texts;
}

// TensorRT 8.6 logs errors when it cannot read its compiler's timings of an earlier build, and goes on without them.
bool speaks_of_timing_cache(const LogLine& line) {
    return mentions_any(line.text, {"myelinCache.h", "timing cache", "Timing cache", "TimingCache"});
}

} // namespace

std::string_view severity_name(Severity severity) noexcept {
    const auto index = static_cast<std::size_t>(severity);
    return index < severity_names.size() ? severity_names[index] : severity_names.back();
}

Severity parse_severity(std::string_view name) {
    const auto* const found = std::find(severity_names.begin(), severity_names.end(), name);
    if (found == severity_names.end()) {
        throw UsageProblem("Unknown log severity '" + std::string{name} +
                           "'; use internal_error, error, warning, info or verbose.");
    }
    return static_cast<Severity>(found - severity_names.begin());
}

void LogBuffer::set_threshold(Severity threshold) noexcept {
    const std::scoped_lock lock{mutex_};
    threshold_ = threshold;
}

Severity LogBuffer::threshold() const noexcept {
    const std::scoped_lock lock{mutex_};
    return threshold_;
}

void LogBuffer::add(Severity severity, std::string_view text) noexcept {
    try {
        const std::scoped_lock lock{mutex_};
        if (severity > threshold_ || capacity_ == 0) {
            return;
        }
        lines_.push_back({next_, severity, std::string{text}, std::this_thread::get_id()});
        ++next_;
        if (lines_.size() > capacity_) {
            lines_.pop_front();
        }
    } catch (...) { // NOLINT(bugprone-empty-catch): out of memory, and the caller cannot take an exception
    }
}

std::vector<LogLine> LogBuffer::drain() {
    const std::scoped_lock lock{mutex_};
    std::vector<LogLine> fresh;
    for (const LogLine& line : lines_) {
        if (line.sequence >= drained_) {
            fresh.push_back(line);
        }
    }
    drained_ = next_;
    return fresh;
}

std::vector<LogLine> LogBuffer::since(std::uint64_t first, Severity at_most) const {
    const std::scoped_lock lock{mutex_};
    std::vector<LogLine> found;
    for (const LogLine& line : lines_) {
        if (line.sequence >= first && line.severity <= at_most) {
            found.push_back(line);
        }
    }
    return found;
}

std::vector<LogLine> LogCapture::lines(Severity at_most) const {
    std::vector<LogLine> lines = buffer_.since(first_, at_most);
    if (of_ == Of::this_thread) {
        std::erase_if(lines, [](const LogLine& line) { return line.thread != std::this_thread::get_id(); });
    }
    return lines;
}

std::string LogCapture::errors() const {
    std::vector<LogLine> found = lines(Severity::error);
    if (!std::ranges::all_of(found, speaks_of_timing_cache)) {
        std::erase_if(found, speaks_of_timing_cache);
    }
    return joined(unique_texts(found), "; ");
}

std::vector<std::string> LogCapture::warnings() const {
    std::vector<LogLine> found = lines(Severity::warning);
    std::erase_if(found, [](const LogLine& line) { return line.severity != Severity::warning; });
    return unique_texts(found);
}

std::size_t LogCapture::count(std::string_view text, Severity at_most) const {
    const std::vector<LogLine> found = lines(at_most);
    return static_cast<std::size_t>(std::count_if(
        found.begin(), found.end(), [text](const LogLine& line) { return line.text.find(text) != std::string::npos; }));
}

bool mentions_any(std::string_view text, std::initializer_list<std::string_view> phrases) noexcept {
    return std::ranges::any_of(phrases, [&](std::string_view phrase) { return text.find(phrase) != text.npos; });
}

bool speaks_of_memory(std::string_view log) noexcept {
    return mentions_any(log, {"out of memory", "OutOfMemory", "Out of memory", "OUT_OF_MEMORY", "insufficient memory",
                              "memory is insufficient"});
}

bool speaks_of_device(std::string_view log) noexcept {
    return speaks_of_memory(log) || mentions_any(log, {"Cuda Runtime", "CUDA error", "Cuda failure", "Cuda Driver",
                                                       "CUDA initialization failure"});
}

} // namespace trtw
