# Finds CUDA's static runtime and makes the target trt_workbench::cudart of it, for the core's own build and, installed
# with it, for programs that link the core. TRTW_NVCC_ROOT is looked at first, where it is set.
if(NOT TARGET trt_workbench::cudart)
  find_library(TRTW_CUDART_STATIC NAMES libcudart_static.a
    HINTS ${TRTW_NVCC_ROOT} ${TRTW_CUDA_ROOT} $ENV{CUDA_HOME} $ENV{CUDA_PATH} $ENV{CONDA_PREFIX} /usr/local/cuda
    PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib)
  if(TRTW_CUDART_STATIC)
    find_package(Threads REQUIRED)
    add_library(trt_workbench::cudart INTERFACE IMPORTED GLOBAL)
    target_link_libraries(trt_workbench::cudart INTERFACE
      "${TRTW_CUDART_STATIC}" Threads::Threads ${CMAKE_DL_LIBS} rt)
  endif()
endif()
