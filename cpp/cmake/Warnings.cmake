# trtw_warnings: warnings and hardening for the project's own C++ sources.
add_library(trtw_warnings INTERFACE)
set(cxx "$<COMPILE_LANGUAGE:CXX>")
target_compile_options(trtw_warnings INTERFACE
  "$<${cxx}:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Wold-style-cast>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>"
  "$<${cxx}:-fstack-protector-strong>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: false reports for std::string's operator+ with optimisation.
  target_compile_options(trtw_warnings INTERFACE "$<${cxx}:-Wno-restrict>")
endif()
if(TRTW_WERROR)
  target_compile_options(trtw_warnings INTERFACE
    "$<${cxx}:-Werror>" "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>")
endif()
# glibc's checks need optimisation; the compiler may predefine another level.
target_compile_options(trtw_warnings INTERFACE
  "$<$<AND:${cxx},$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
target_link_options(trtw_warnings INTERFACE "LINKER:-z,relro,-z,now" "LINKER:-z,noexecstack")
