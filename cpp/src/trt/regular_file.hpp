// Files that the user names, opened once.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace trtw {

/// A file's content, in memory that nothing else was written to.
struct FileBytes {
    std::unique_ptr<std::byte[]> data;
    std::size_t bytes = 0;
    [[nodiscard]] std::span<const std::byte> span() const noexcept { return {data.get(), bytes}; }
};

/// The descriptor of a regular file that is open for reading. Throws UsageProblem where there is none: folders, pipes,
/// sockets and devices are refused at once. `what` begins the sentence: "The engine file".
class RegularFile {
public:
    RegularFile(const std::string& path, const std::string& what);
    ~RegularFile();
    RegularFile(const RegularFile&) = delete;
    RegularFile& operator=(const RegularFile&) = delete;

    [[nodiscard]] FileBytes read() const;
    /// Which file it is, whatever its name: device and inode.
    [[nodiscard]] const std::string& identity() const noexcept { return identity_; }
    /// A path that names this very file as long as this lives, whatever becomes of the name that it was opened by.
    [[nodiscard]] std::string descriptor_path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
    /// Its name in the file system, for messages.
    [[nodiscard]] const std::string& name() const noexcept { return name_; }

private:
    std::string name_;
    std::string identity_;
    std::string what_;
    std::size_t bytes_ = 0;
    int descriptor_ = -1;
};

} // namespace trtw
