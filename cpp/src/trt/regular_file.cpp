#include "trt/regular_file.hpp"

#include "trtw/error.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace trtw {

RegularFile::RegularFile(const std::string& path, const std::string& what)
    : name_{path}, what_{what}, descriptor_{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {
    struct stat found{};
    if (descriptor_ < 0 || fstat(descriptor_, &found) != 0) {
        const std::string reason = std::generic_category().message(errno);
        throw UsageProblem(what + " cannot be opened (" + reason + "): " + path);
    }
    if (!S_ISREG(found.st_mode)) {
        ::close(descriptor_);
        throw UsageProblem(what + " is not a regular file but " +
                           (S_ISDIR(found.st_mode)    ? "a folder"
                            : S_ISFIFO(found.st_mode) ? "a pipe"
                                                      : "a device or a socket") +
                           ": " + path);
    }
    bytes_ = static_cast<std::size_t>(found.st_size);
    identity_ = std::to_string(found.st_dev) + ":" + std::to_string(found.st_ino);
    std::error_code unknown;
    if (const auto target = std::filesystem::read_symlink(descriptor_path(), unknown); !unknown) {
        name_ = target;
    }
}

RegularFile::~RegularFile() {
    ::close(descriptor_);
}

FileBytes RegularFile::read() const {
    FileBytes content{std::make_unique_for_overwrite<std::byte[]>(bytes_), bytes_};
    std::size_t done = 0;
    while (done < bytes_) {
        const ssize_t got = ::pread(descriptor_, content.data.get() + done, bytes_ - done, static_cast<off_t>(done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            throw UsageProblem(what_ + " cannot be read completely: " + name_);
        }
        done += static_cast<std::size_t>(got);
    }
    return content;
}

} // namespace trtw
