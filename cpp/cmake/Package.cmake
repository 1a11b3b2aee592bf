# Installs the library with its headers, so that `find_package(trt_workbench CONFIG)` finds it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(trtw_package "${CMAKE_INSTALL_LIBDIR}/cmake/trt_workbench")

install(TARGETS trtw EXPORT trt_workbench-targets ARCHIVE COMPONENT library INCLUDES DESTINATION include)
install(DIRECTORY include/trtw DESTINATION include COMPONENT library)
install(EXPORT trt_workbench-targets NAMESPACE trt_workbench:: DESTINATION "${trtw_package}" COMPONENT library)

configure_package_config_file(cmake/trt_workbench-config.cmake.in trt_workbench-config.cmake
  INSTALL_DESTINATION "${trtw_package}")
# Before 1.0 a minor version may change the API.
write_basic_package_version_file(trt_workbench-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/CudaRuntime.cmake "${CMAKE_CURRENT_BINARY_DIR}/trt_workbench-config.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/trt_workbench-config-version.cmake" DESTINATION "${trtw_package}" COMPONENT library)
