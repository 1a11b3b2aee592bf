#include "build/tactic_libraries.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include <dlfcn.h>
#include <unistd.h>

using trtw::tactic_library_problem;

TEST_CASE("sources without a library have no problem") {
    CHECK(tactic_library_problem("jit_convolutions", {}).empty());
    CHECK(tactic_library_problem("edge_mask_convolutions", "/no/such/folder").empty());
}

TEST_CASE("an absent library is told by the loader's own words") {
    if (void* handle = dlopen("libcudnn.so.8", RTLD_LAZY)) {
        dlclose(handle);
        return; // this machine has cuDNN 8
    }
    CHECK(tactic_library_problem("cudnn", {}).find("libcudnn.so.8") != std::string::npos);
}

TEST_CASE("a file beside libnvinfer that is no library is a problem") {
    if (dlopen("libcudnn.so.8", RTLD_LAZY) != nullptr) {
        return;
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "trtw-test-XXXXXX").string();
    const std::filesystem::path folder = mkdtemp(pattern.data());
    std::ofstream{folder / "libcudnn.so.8"} << "not a library";
    const std::string problem = tactic_library_problem("cudnn", folder);
    std::filesystem::remove_all(folder);
    CHECK(problem.find(folder.string()) != std::string::npos);
}
