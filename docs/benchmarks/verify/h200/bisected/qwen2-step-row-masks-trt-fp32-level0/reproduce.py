"""TensorRT 8.6.0: wrong result of 4 Mul, 3 Add, 2 Slice, Neg, Concat, 2 Where, 2 Unsqueeze, 2 Expand, 2 Reshape, Transpose, 2 MatMul, Softmax, 2 Cast in fp32. Needs tensorrt, torch and numpy; exit code 1 where the result is wrong."""
import pathlib, sys, urllib.parse
import numpy as np, tensorrt as trt, torch

here = pathlib.Path(__file__).resolve().parent
inputs, expected = (
    {urllib.parse.unquote(file.stem): np.load(file) for file in sorted((here / folder).glob("*.npy"))}
    for folder in ("inputs", "expected")
)
builder = trt.Builder(logger := trt.Logger(trt.Logger.WARNING))
explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)  # none in TensorRT 11
network = builder.create_network(0 if explicit is None else 1 << int(explicit))
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file(str(here / "minimal.onnx")), parser.get_error(0)
config = builder.create_builder_config()
config.clear_flag(trt.BuilderFlag.TF32)
config.builder_optimization_level = 0
config.set_tactic_sources(config.get_tactic_sources() & ~(1 << int(trt.TacticSource.CUBLAS) | 1 << int(trt.TacticSource.CUBLAS_LT) | 1 << int(trt.TacticSource.CUDNN) | 1 << int(trt.TacticSource.JIT_CONVOLUTIONS)))
engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
context = engine.create_execution_context()
arrays = inputs | {name: np.zeros_like(array) for name, array in expected.items()}
tensors = {name: torch.from_numpy(array).cuda() for name, array in arrays.items()}
for name, tensor in tensors.items():
    if name in inputs:
        context.set_input_shape(name, tuple(tensor.shape))
    context.set_tensor_address(name, tensor.data_ptr())
context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
torch.cuda.synchronize()
found = {name: tensors[name].cpu().numpy() for name in expected}
wrong = False
for name, want in expected.items():
    exact = want.astype(np.float64)
    apart, largest = np.abs(found[name] - exact).max(initial=0), np.abs(exact).max(initial=0)
    wrong |= not apart <= 8.01e-06 * largest  # what the precision explains
    print(f"{name} {list(want.shape)}: largest difference {apart:.3g}, largest value {largest:.3g}")
sys.exit(int(wrong))
