"""The options of ONNX Runtime's TensorRT provider, by the names that its library of 1.31.1 holds."""

from __future__ import annotations

from collections.abc import Mapping

from trt_workbench.backends.extra_options import Option

# Left out on purpose: trt_onnx_bytestream* and trt_external_data_bytestream* (addresses in memory),
# trt_engine_decryption_* (loads a library that is handed every engine) and user_compute_stream.
# trt_engine_cache_enable, trt_engine_cache_path, trt_timing_cache_enable and trt_timing_cache_path have defaults here
# that ONNX Runtime does not: one folder for everything that can change an engine.
TRT_OPTIONS: Mapping[str, Option] = {
    "device_id": Option(int, default=0, minimum=0, help="Index of the GPU."),
    "trt_max_partition_iterations": Option(int, minimum=1, help="Most attempts at partitioning the graph."),
    "trt_min_subgraph_size": Option(int, minimum=1, help="Fewest nodes of a subgraph given to TensorRT."),
    "trt_op_types_to_exclude": Option(str, help="Operators kept from TensorRT, separated by commas."),
    "trt_max_workspace_size": Option(int, minimum=1, help="Most bytes of workspace; all the memory by default."),
    "trt_fp16_enable": Option(bool, help="Allow fp16 tactics; follows the precision by default."),
    "trt_bf16_enable": Option(bool, help="Allow bf16 tactics; follows the precision by default."),
    "trt_int8_enable": Option(bool, help="Allow int8 tactics; follows the precision by default."),
    "trt_int8_calibration_table_name": Option(str, help="File with the calibration table."),
    "trt_int8_use_native_calibration_table": Option(bool, help="The table is TensorRT's own, not ONNX Runtime's."),
    "trt_layer_norm_fp32_fallback": Option(bool, help="Keep Pow and Reduce of layer normalisation in fp32."),
    "trt_dla_enable": Option(bool, help="Use the deep-learning accelerator of a Jetson."),
    "trt_dla_core": Option(int, minimum=0, help="Which of them."),
    "trt_engine_cache_enable": Option(bool, default=True, help="Keep engines between processes."),
    "trt_engine_cache_path": Option(str, help="Folder of the engines; one per hash of all inputs by default."),
    "trt_engine_cache_prefix": Option(str, help="Start of the engines' file names."),
    "trt_engine_hw_compatible": Option(bool, help="Engines for every GPU from Ampere on; slower."),
    "trt_weight_stripped_engine_enable": Option(bool, help="Engines without weights, refitted at load."),
    "trt_onnx_model_folder_path": Option(str, help="Folder of the model that refits a stripped engine."),
    "trt_load_user_initializer": Option(bool, help="Take initialisers from the application."),
    "trt_timing_cache_enable": Option(bool, default=True, help="Keep timings of tactics between builds."),
    "trt_timing_cache_path": Option(str, help="Folder of the timing cache; that of the engines by default."),
    "trt_force_timing_cache": Option(bool, help="Accept a timing cache of another GPU model."),
    "trt_force_sequential_engine_build": Option(bool, help="Build one engine at a time."),
    "trt_context_memory_sharing_enable": Option(bool, help="Subgraphs share their activation memory."),
    "trt_builder_optimization_level": Option(int, minimum=0, help="0 (fast build) to 5 (most tactics)."),
    "trt_build_heuristics_enable": Option(bool, help="Choose tactics by heuristics; faster builds."),
    "trt_sparsity_enable": Option(bool, help="Use structured sparsity of weights."),
    "trt_auxiliary_streams": Option(int, minimum=-1, help="Auxiliary streams; -1 lets TensorRT choose."),
    "trt_tactic_sources": Option(str, help="Tactic sources to add or remove, such as -CUDNN,+CUBLAS."),
    "trt_preview_features": Option(str, help="Preview features by name, separated by commas."),
    "trt_extra_plugin_lib_paths": Option(str, help="Plugin libraries, separated by semicolons; they are code."),
    "trt_profile_min_shapes": Option(str, help="Smallest shapes: input:1x3x640x640,… for every dynamic input."),
    "trt_profile_opt_shapes": Option(str, help="Shapes to optimise for."),
    "trt_profile_max_shapes": Option(str, help="Largest shapes."),
    "trt_cuda_graph_enable": Option(bool, help="Replay CUDA graphs; follows cuda_graph by default."),
    "trt_dump_subgraphs": Option(bool, help="Write each subgraph as ONNX into the current folder."),
    "trt_dump_ep_context_model": Option(bool, help="Write an ONNX file that holds or names the engines."),
    "trt_ep_context_file_path": Option(str, help="Where that file is written."),
    "trt_ep_context_embed_mode": Option(int, minimum=0, help="1 holds the engine in that file, 0 names it."),
    "trt_detailed_build_log": Option(bool, help="Log each step of a build."),
}

LEFT_OUT = frozenset(
    {
        "trt_onnx_bytestream",
        "trt_onnx_bytestream_size",
        "trt_external_data_bytestream",
        "trt_external_data_bytestream_size",
        "trt_engine_decryption_enable",
        "trt_engine_decryption_lib_path",
    }
)
PROFILE_OPTIONS = ("trt_profile_min_shapes", "trt_profile_opt_shapes", "trt_profile_max_shapes")
