// Whether this code shares the process's C++ standard library, as everything that opens TensorRT has to.
#pragma once

#include <string>
#include <vector>

namespace trtw {

/// The libraries that the program or library around an address names as needed (DT_NEEDED); empty if it is unknown.
std::vector<std::string> needed_libraries(const void* address);

/// Whether the program or library around an address has a function of that name itself, so that others can see it.
bool defines(const void* address, const char* name);

/// Whether libstdc++ was linked into this program or library statically. TensorRT's libraries bring libstdc++.so.6;
/// two copies in a process share some of their symbols and not others, which crashes.
bool has_static_libstdcxx();

} // namespace trtw
