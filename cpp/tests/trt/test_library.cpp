#include "trt/entry_points.hpp"
#include "trtw/error.hpp"
#include "trtw/library.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

namespace fs = std::filesystem;
using namespace trtw;

namespace {

class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string pattern = (fs::temp_directory_path() / "trtw-test-XXXXXX").string();
        path_ = mkdtemp(pattern.data());
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    [[nodiscard]] const fs::path& path() const { return path_; }
    fs::path file(const std::string& name) const {
        fs::create_directories((path_ / name).parent_path());
        std::ofstream{path_ / name} << "not a library";
        return path_ / name;
    }

private:
    fs::path path_;
};

} // namespace

TEST_CASE("version numbers of both schemes") {
    CHECK(version_text(8600) == "8.6.0");
    CHECK(version_text(8601) == "8.6.1");
    CHECK(version_text(101601) == "10.16.1");
    CHECK(version_text(110100) == "11.1.0");
}

TEST_CASE("versions are compared in both schemes") {
    CHECK(is_at_least(8600, 8, 6));
    CHECK_FALSE(is_at_least(8503, 8, 6));
    CHECK_FALSE(is_at_least(8601, 10, 0));
    CHECK(is_at_least(100001, 8, 6));
    CHECK(is_at_least(101601, 10, 9));
    CHECK_FALSE(is_at_least(100901, 10, 16));
}

TEST_CASE("a core can use every library of the major version of its headers, from 8.6 on") {
    for (const std::int32_t library : {100001, 100900, 101601}) {
        CHECK(can_use(100900, library));
    }
    CHECK(can_use(8600, 8601));
    CHECK_FALSE(can_use(8600, 8503));
    CHECK_FALSE(can_use(8600, 101600));
    CHECK_FALSE(can_use(101600, 110000));
}

TEST_CASE("the SONAME file is preferred, else the newest full version") {
    const TemporaryFolder folder;
    CHECK(library_files(folder.path(), "nvinfer", 10).empty());
    const auto full = folder.file("libnvinfer.so.10.16.1");
    folder.file("libnvinfer.so.8.6.0");
    CHECK(library_files(folder.path(), "nvinfer", 10) == std::vector<fs::path>{full});
    const auto soname = folder.file("libnvinfer.so.10");
    CHECK(library_files(folder.path(), "nvinfer", 10) == std::vector<fs::path>{soname});
    CHECK(library_files(folder.path() / "absent", "nvinfer", 10).empty());
}

TEST_CASE("search order: TENSORRT_HOME, then the loader's path; an explicit folder stands alone") {
    const TemporaryFolder home;
    const TemporaryFolder given;
    const auto at_home = home.file("lib/libnvinfer.so.8");
    const auto in_given = given.file("libnvinfer.so.8");
    CHECK(search_order({}, home.path(), {8}) == std::vector<std::string>{at_home.string(), "libnvinfer.so.8"});
    CHECK(search_order({}, {}, {11, 10}) == std::vector<std::string>{"libnvinfer.so.11", "libnvinfer.so.10"});
    CHECK(search_order(given.path(), home.path(), {8}) == std::vector<std::string>{in_given.string()});
    CHECK(search_order(given.path(), home.path(), {10}).empty());
}

TEST_CASE("mapped files are told once each") {
    std::istringstream maps{"7f00-7f01 r-xp 00000000 08:01 1 /opt/a b/libnvinfer.so.8\n"
                            "7f01-7f02 r--p 00001000 08:01 1 /opt/a b/libnvinfer.so.8\n"
                            "7f02-7f03 r-xp 00000000 08:01 2 /usr/lib/libnvinfer_plugin.so.8\n"
                            "7f03-7f04 rw-p 00000000 00:00 0 [heap]\n"
                            "7f04-7f05 r-xp 00000000 08:01 3 /usr/lib/libnvinfer.so.10\n"};
    CHECK(mapped_files(maps, "libnvinfer.so") ==
          std::vector<std::string>{"/opt/a b/libnvinfer.so.8", "/usr/lib/libnvinfer.so.10"});
}

TEST_CASE("a folder without TensorRT is named in the error") {
    const TemporaryFolder empty;
    CHECK_THROWS_WITH_AS(load_library(empty.path()), doctest::Contains(empty.path().c_str()), trtw::ComponentMissing);
    const LibraryStatus status = library_status(empty.path());
    CHECK_FALSE(status.available);
    CHECK(status.error.find("setup-tensorrt") != std::string::npos);
}

TEST_CASE("a file that is no library is an error with the loader's reason") {
    const TemporaryFolder folder;
    for (const char* major : {"8", "10", "11"}) {
        folder.file(std::string{"libnvinfer.so."} + major);
    }
    CHECK_THROWS_WITH_AS(load_library(folder.path()), doctest::Contains("could not be opened"), trtw::ComponentMissing);
}

TEST_CASE("where there is another major version alone, that is said") {
    const TemporaryFolder folder;
    folder.file("libnvinfer.so.9"); // no core is built for it
    const bool has_headers = !library_status("/no/such/folder").headers.empty();
    CHECK_THROWS_WITH_AS(load_library(folder.path()),
                         doctest::Contains(has_headers ? "of another major version" : "could not be opened"),
                         trtw::ComponentMissing);
}
