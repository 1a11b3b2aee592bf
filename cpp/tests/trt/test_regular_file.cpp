#include "trt/regular_file.hpp"

#include "trtw/error.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;
using trtw::RegularFile;
using trtw::UsageProblem;

namespace {

struct Folder {
    Folder() { fs::create_directory(path); }
    ~Folder() { fs::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    fs::path write(const std::string& name, const std::string& text) const {
        std::ofstream{path / name} << text;
        return path / name;
    }

    const fs::path path = fs::temp_directory_path() / ("trtw-regular-file-" + std::to_string(getpid()));
};

std::string text_of(const RegularFile& file) {
    const auto bytes = file.read();
    return {reinterpret_cast<const char*>(bytes.data.get()), bytes.bytes};
}

} // namespace

TEST_CASE("a file is read whole, and stays the one that was opened") {
    const Folder folder;
    const fs::path path = folder.write("a.plan", "first");
    const RegularFile file{path, "The engine file"};
    CHECK(text_of(file) == "first");
    const fs::path other = folder.write("b.plan", "second");
    fs::rename(other, path);
    CHECK(text_of(file) == "first");
    const RegularFile again{file.descriptor_path(), "The engine file"};
    CHECK(text_of(again) == "first");
    CHECK(again.identity() == file.identity());
    CHECK(RegularFile{path, "The engine file"}.identity() != file.identity());
    CHECK(text_of(RegularFile{folder.write("none", ""), "The engine file"}).empty());
}

TEST_CASE("folders, pipes, devices and nothing are refused at once") {
    const Folder folder;
    const fs::path pipe = folder.path / "pipe";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    const auto refused = [](const fs::path& path, const char* words) {
        CHECK_THROWS_WITH_AS((RegularFile{path, "The engine file"}), doctest::Contains(words), UsageProblem);
    };
    refused(folder.path, "The engine file is not a regular file but a folder: ");
    refused(pipe, "not a regular file but a pipe: ");
    refused("/dev/null", "not a regular file but a device or a socket: ");
    refused(folder.path / "absent", "cannot be opened (No such file or directory): ");
}
