# Source files of the core, by part and by what they need.

# No CUDA, no TensorRT.
set(TRTW_CPU_SOURCES
  src/device/copy_pool.cpp
  src/engine/library.cpp
  src/engine/standard_library.cpp
  src/engine/log_buffer.cpp
  src/engine/host_array.cpp
  src/engine/plan_file.cpp
  src/engine/profile_choice.cpp
  src/engine/slice.cpp
  src/engine/tensor.cpp
  src/engine/slot_pool.cpp
  src/engine/block_pool.cpp
  src/engine/onnx_nodes.cpp
  src/engine/build_options.cpp
  src/engine/profile.cpp
  src/engine/tactic_libraries.cpp
  src/vision/letterbox_cpu.cpp
  src/vision/staging.cpp)

# CUDA headers and runtime.
set(TRTW_CUDA_SOURCES
  src/device/check.cpp
  src/device/memory.cpp
  src/device/stream.cpp
  src/device/graph.cpp
  src/device/readers.cpp
  src/device/status.cpp)

# nvcc.
set(TRTW_KERNEL_SOURCES
  src/vision/letterbox_gpu.cpp
  src/vision/letterbox.cu)

# TensorRT headers: building, inspecting, refitting.
set(TRTW_BUILD_SOURCES
  src/engine/api.cpp
  src/engine/builder.cpp
  src/engine/builder_config.cpp
  src/engine/calibrator.cpp
  src/engine/inspect.cpp
  src/engine/logger.cpp
  src/engine/network.cpp
  src/engine/onnx_parser.cpp
  src/engine/plugins.cpp
  src/engine/precision.cpp
  src/engine/progress.cpp
  src/engine/refit.cpp
  src/engine/timing_cache.cpp
  src/engine/types.cpp)

# TensorRT headers: running.
set(TRTW_RUN_SOURCES
  src/engine/call.cpp
  src/engine/plan.cpp
  src/engine/execution.cpp
  src/engine/output_allocator.cpp
  src/engine/slot.cpp
  src/engine/context_cache.cpp
  src/engine/state.cpp
  src/engine/slot_prepare.cpp
  src/engine/slot_transfer.cpp
  src/engine/runner.cpp
  src/engine/bench_stream.cpp
  src/engine/bench.cpp
  src/engine/layer_profile.cpp)

# C++ unit tests, without the suffix.
set(TRTW_TEST_NAMES
  main
  test_library
  test_standard_library
  test_log_buffer
  test_build_options
  test_onnx_nodes
  test_profile
  test_tactic_libraries
  test_profile_choice
  test_plan_file
  test_host_array
  test_slice
  test_tensor
  test_slot_pool
  test_block_pool
  test_copy_pool
  test_lru
  test_vision_letterbox
  test_vision_staging)

# C++ unit tests that need TensorRT's headers.
set(TRTW_ENGINE_TEST_NAMES
  test_builder_config
  test_calibrator
  test_onnx_parser
  test_plan
  test_precision
  test_progress
  test_types
  test_version)
