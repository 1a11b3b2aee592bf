# Source files of the core and its tests, by what they need.

# No CUDA, no TensorRT.
set(TRTW_CPU_SOURCES
  src/build/build_options.cpp
  src/build/onnx_nodes.cpp
  src/build/profile.cpp
  src/build/tactic_libraries.cpp
  src/device/copy_pool.cpp
  src/run/batch_rows.cpp
  src/run/batch_sizes.cpp
  src/run/block_pool.cpp
  src/run/host_array.cpp
  src/run/profile_choice.cpp
  src/run/slice.cpp
  src/run/slot_pool.cpp
  src/run/stream_table.cpp
  src/trt/library.cpp
  src/trt/log_buffer.cpp
  src/trt/plan_file.cpp
  src/trt/regular_file.cpp
  src/trt/standard_library.cpp
  src/trt/tensor.cpp
  src/vision/head_cpu.cpp
  src/vision/letterbox_cpu.cpp
  src/vision/mask_cpu.cpp
  src/vision/staging.cpp)

# CUDA headers and runtime.
set(TRTW_CUDA_SOURCES
  src/device/check.cpp
  src/device/graph.cpp
  src/device/memory.cpp
  src/device/readers.cpp
  src/device/status.cpp
  src/device/stream.cpp)

# nvcc. Its host compiler may have another standard library than CXX: none of that library's types in what links them.
set(TRTW_KERNEL_SOURCES
  src/run/pixel_pack.cu
  src/run/row_copy.cu
  src/vision/head.cu
  src/vision/head_gpu.cpp
  src/vision/letterbox.cu
  src/vision/letterbox_gpu.cpp
  src/vision/mask.cu)

# TensorRT headers.
set(TRTW_TENSORRT_SOURCES
  src/build/builder.cpp
  src/build/builder_config.cpp
  src/build/calibrator.cpp
  src/build/inspect.cpp
  src/build/network.cpp
  src/build/onnx_parser.cpp
  src/build/precision.cpp
  src/build/progress.cpp
  src/build/refit.cpp
  src/build/timing_cache.cpp
  src/run/bench.cpp
  src/run/bench_stream.cpp
  src/run/call.cpp
  src/run/call_memory.cpp
  src/run/call_planner.cpp
  src/run/captured_call.cpp
  src/run/channels_last.cpp
  src/run/context_cache.cpp
  src/run/device_blocks.cpp
  src/run/execution.cpp
  src/run/host_outputs.cpp
  src/run/lanes.cpp
  src/run/layer_profile.cpp
  src/run/output_allocator.cpp
  src/run/runner.cpp
  src/run/slot.cpp
  src/run/state.cpp
  src/run/transfers.cpp
  src/trt/api.cpp
  src/trt/failure.cpp
  src/trt/logger.cpp
  src/trt/plan.cpp
  src/trt/plugins.cpp
  src/trt/types.cpp
  src/trt/version.cpp)

# Both.
set(TRTW_STREAM_SOURCES
  src/run/detector.cpp
  src/run/state_arena.cpp
  src/run/stream_pool.cpp)

# C++ unit tests, without the suffix.
set(TRTW_TEST_NAMES
  build/test_build_options
  build/test_onnx_nodes
  build/test_profile
  build/test_tactic_libraries
  main
  trt/test_library
  trt/test_log_buffer
  trt/test_plan_file
  trt/test_regular_file
  trt/test_standard_library
  trt/test_tensor
  vision/test_head
  vision/test_letterbox
  vision/test_staging)

# C++ unit tests that need TensorRT's headers.
set(TRTW_TENSORRT_TEST_NAMES
  build/test_builder_config
  build/test_calibrator
  build/test_onnx_parser
  build/test_precision
  build/test_progress
  trt/test_plan
  trt/test_types
  trt/test_version)
