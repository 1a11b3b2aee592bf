# Sees to it that libstdc++ is linked dynamically: TensorRT's libraries bring libstdc++.so.6, and two copies of it in one
# process crash. Some toolchains link it statically without being told to, and where there are kernels, the folders of
# nvcc's host compiler (CUDAHOSTCXX) are searched as well. So a probe is linked of what the core is linked of, and its
# needs are read; where libstdc++.so.6 is missing, it is named before the compiler driver's own choice, which then has
# nothing to add. What a link does all the same is found at run time (src/trt/standard_library.cpp).
# Sets TRTW_STANDARD_LIBRARY, what every program and module links at its end.
set(TRTW_STANDARD_LIBRARY "")
set(trtw_probe "${CMAKE_CURRENT_BINARY_DIR}/standard-library")
file(WRITE "${trtw_probe}/probe.cpp" [[
#include <iostream>
#ifndef __GLIBCXX__
extern "C" const char trtw_other_library[] = "TRTW_OTHER_STANDARD_LIBRARY";
#endif
int main(int count, char**) {
    std::cout << count << '\n';
#ifndef __GLIBCXX__
    std::cout << trtw_other_library;
#endif
}
]])

set(trtw_probe_sources "${trtw_probe}/probe.cpp")
if(TRTW_WITH_KERNELS)
  file(WRITE "${trtw_probe}/kernel.cu" "__global__ void kernel() {}\nvoid launch() { kernel<<<1, 1>>>(); }\n")
  list(APPEND trtw_probe_sources "${trtw_probe}/kernel.cu")
endif()

# Sets `result` to "shared", "static", "other" (not libstdc++) or, where the probe does not link, "failed".
function(trtw_probe_standard_library result)
  unset(TRTW_PROBE_LINKED CACHE)
  try_compile(TRTW_PROBE_LINKED "${trtw_probe}" SOURCES ${trtw_probe_sources} LINK_LIBRARIES ${ARGN}
    CUDA_STANDARD 17 COPY_FILE "${trtw_probe}/probe")
  set(found "failed")
  if(TRTW_PROBE_LINKED)
    # The name stands among the dynamic strings exactly where it is needed.
    file(STRINGS "${trtw_probe}/probe" names REGEX "^(libstdc[+][+][.]so[.0-9]*|TRTW_OTHER_STANDARD_LIBRARY)$")
    set(found "static")
    if("TRTW_OTHER_STANDARD_LIBRARY" IN_LIST names)
      set(found "other")
    elseif(names)
      set(found "shared")
    endif()
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

trtw_probe_standard_library(trtw_linkage)
if(trtw_linkage STREQUAL "static")
  set(TRTW_STANDARD_LIBRARY "-Wl,-Bdynamic" "-lstdc++")
  trtw_probe_standard_library(trtw_mended ${TRTW_STANDARD_LIBRARY})
  if(NOT trtw_mended STREQUAL "shared")
    # A folder before the compiler's own may hold the archive alone: by its path the library is found all the same.
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libstdc++.so
      OUTPUT_VARIABLE TRTW_STANDARD_LIBRARY OUTPUT_STRIP_TRAILING_WHITESPACE)
    trtw_probe_standard_library(trtw_mended "${TRTW_STANDARD_LIBRARY}")
  endif()
  set(trtw_advice "Choose a compiler that links it dynamically (CXX=g++), without -static-libstdc++ in CXXFLAGS or LDFLAGS.")
  if(trtw_mended STREQUAL "shared")
    message(STATUS "The compiler links libstdc++ statically; libstdc++.so.6 is linked instead, as TensorRT needs it")
  elseif(TRTW_WITH_TENSORRT)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} links libstdc++ statically and cannot be made to link libstdc++.so.6. "
      "TensorRT brings libstdc++.so.6, and two copies of it in one process crash. ${trtw_advice}")
  else()
    message(WARNING "${CMAKE_CXX_COMPILER} links libstdc++ statically: this core will refuse TensorRT. ${trtw_advice}")
  endif()
elseif(trtw_linkage STREQUAL "failed")
  message(WARNING "Whether ${CMAKE_CXX_COMPILER} links libstdc++ dynamically is unknown: a small program does not link. "
    "If it does not, the core will refuse TensorRT.")
endif()
