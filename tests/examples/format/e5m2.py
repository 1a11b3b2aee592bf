"""A row of the table of formats: all that there is of fp8 in E5M2."""

from trt_workbench.core.precision import DEPTHWISE, FEW_CHANNELS, HEAD, WHOLE, Format

ROW = Format(
    "fp8-e5m2",  # as it is asked for and printed
    exponent_bits=5,
    mantissa_bits=2,  # a unit roundoff of 2^-3: noise of the yardstick, and every default limit
    largest=57344,
    infinity=True,  # what is beyond becomes infinite
    onnx=("FLOAT8E5M2",),  # a graph with this element type is in the format
    numpy="float8_e5m2",  # of ml_dtypes: codes of weights
    words=r"e5m2",  # in what TensorRT says of layers
    since=19,  # the operator set that has the element type
    opset=19,  # that of models made in it
    ir_version=9,
    recipe="scales",  # made with QuantizeLinear and DequantizeLinear, ranges from calibration data
    modes=(WHOLE,),  # `quantize --to fp8-e5m2`, `decide --precisions fp8-e5m2`
    sensitive=(DEPTHWISE, HEAD, FEW_CHANNELS),  # kept in fp32 unless asked
    cpu=False,  # ONNX Runtime's CPU provider does not load it:
    simulation="cast",  # it is rounded by a Cast to the type and back
)
