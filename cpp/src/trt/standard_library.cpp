#include "trt/standard_library.hpp"

#include <algorithm>
#include <cstdint>
#include <dlfcn.h>
#include <link.h>
#include <span>
#include <version> // defines __GLIBCXX__ where the standard library is libstdc++

namespace trtw {

namespace {

struct Search {
    std::uintptr_t address;
    std::vector<std::string> needed;
};

using Segment = ElfW(Phdr);

std::span<const Segment> segments_of(const dl_phdr_info& object) {
    return {object.dlpi_phdr, object.dlpi_phnum};
}

bool contains(const dl_phdr_info& object, std::uintptr_t address) {
    for (const Segment& segment : segments_of(object)) {
        const std::uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_LOAD && address >= begin && address - begin < segment.p_memsz) {
            return true;
        }
    }
    return false;
}

// NOLINTBEGIN(performance-no-int-to-ptr): the loader tells addresses as numbers
std::vector<std::string> needed_by(const dl_phdr_info& object) {
    const ElfW(Dyn)* dynamic = nullptr;
    for (const Segment& segment : segments_of(object)) {
        if (segment.p_type == PT_DYNAMIC) {
            dynamic = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + segment.p_vaddr);
        }
    }
    std::uintptr_t strings = 0;
    std::vector<std::uintptr_t> offsets;
    for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
        if (dynamic->d_tag == DT_STRTAB) {
            strings = dynamic->d_un.d_ptr;
        } else if (dynamic->d_tag == DT_NEEDED) {
            offsets.push_back(dynamic->d_un.d_val);
        }
    }
    // glibc has added the load address here already, other loaders leave the file's value.
    strings += strings < object.dlpi_addr ? object.dlpi_addr : 0;
    std::vector<std::string> names;
    for (const std::uintptr_t offset : offsets) {
        names.emplace_back(reinterpret_cast<const char*>(strings + offset));
    }
    return names;
}
// NOLINTEND(performance-no-int-to-ptr)

} // namespace

std::vector<std::string> needed_libraries(const void* address) {
    Search search{reinterpret_cast<std::uintptr_t>(address), {}};
    dl_iterate_phdr(
        [](dl_phdr_info* object, std::size_t /*size*/, void* data) {
            auto& wanted = *static_cast<Search*>(data);
            if (!contains(*object, wanted.address)) {
                return 0;
            }
            wanted.needed = needed_by(*object);
            return 1;
        },
        &search);
    return search.needed;
}

bool defines(const void* address, const char* name) {
    Dl_info object{};
    if (dladdr(address, &object) == 0) {
        return false;
    }
    // Opened already. The search begins with the object itself; a program's name may be no path, and it searches
    // itself.
    void* handle = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) {
        handle = dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD);
    }
    Dl_info found{};
    void* entry = nullptr; // dladdr1's own type for it
    const void* symbol = dlsym(handle, name);
    const bool is_here = symbol != nullptr && dladdr1(symbol, &found, &entry, RTLD_DL_SYMENT) != 0 &&
                         found.dli_fbase == object.dli_fbase && entry != nullptr &&
                         static_cast<const ElfW(Sym)*>(entry)->st_shndx != SHN_UNDEF; // else a program's way to another
    dlclose(handle);
    return is_here;
}

bool has_static_libstdcxx() {
#ifdef __GLIBCXX__
    static const char inside = 0;
    const std::vector<std::string> needed = needed_libraries(&inside);
    const bool names_it = std::any_of(needed.begin(), needed.end(),
                                      [](const std::string& name) { return name.starts_with("libstdc++.so"); });
    // No entry at all: a static program or an unknown object, of which nothing can be said.
    // Named is not used: a toolchain may take functions from an archive that stands before the library. This one is
    // behind every `throw`, and no header defines it.
    return (!needed.empty() && !names_it) || defines(&inside, "__cxa_throw");
#else
    return false;
#endif
}

} // namespace trtw
