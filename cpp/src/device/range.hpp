// Named ranges for Nsight Systems; free of cost where no profiler is attached, nothing where NVTX's headers lack.
#pragma once

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TRTW_HAS_NVTX 1
#endif

namespace trtw {

class Range {
public:
#ifdef TRTW_HAS_NVTX
    explicit Range(const char* name) noexcept { nvtxRangePushA(name); }
    ~Range() { nvtxRangePop(); }
#else
    explicit Range(const char* /*name*/) noexcept {}
    ~Range() = default;
#endif
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;
};

} // namespace trtw
