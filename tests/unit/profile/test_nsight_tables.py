"""What Nsight Systems and Nsight Compute print, made into kernels, layers and nodes."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.texts import refused

from trt_workbench.backends.profiling import Operation
from trt_workbench.core.errors import UsageProblem
from trt_workbench.profile import ncu_raw
from trt_workbench.profile.document import Kernel, read_records
from trt_workbench.profile.launches import LayerIndex, read_nsys
from trt_workbench.profile.ncu_raw import nanoseconds, number, read_table

from .conftest import SAMPLES, sample

REFORMAT = "Reformatting CopyNode for Input Tensor 0 to /conv1/Conv + /relu1/Relu"


CONV = "sm80_xmma_fprop_implicit_gemm_f16f16<(int)64, (bool)1>(const Params &)"
VERSIONS = ("2022.4", "2023.4")


def nsys_kernels(folder: Path, layers: list[Operation], version: str = "2023.4", change: str = "") -> list[Kernel]:
    recording = folder / f"nsys {version}.sqlite"
    with closing(sqlite3.connect(recording)) as database:
        database.executescript(sample(f"nsys-{version}.sql") + change)
    return read_nsys(recording, LayerIndex(layers))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recording_of_nsys_gives_its_kernels_by_layer(version: str, tmp_path: Path, fp16: list[Operation]) -> None:
    """Kernel names hold quotes and commas; one launch is outside of layers, one in another thread, one elsewhere."""
    kernels = nsys_kernels(tmp_path, fp16, version)
    assert [(one.name.partition("<")[0], one.layer, one.launches, one.total_ms) for one in kernels] == [
        ("sm80_xmma_fprop_implicit_gemm_f16f16", "/conv1/Conv + /relu1/Relu", 2, 0.04),
        ("sm80_xmma_fprop_implicit_gemm_f16f16", "/conv2/Conv", 2, 0.024),
        ("void genericReformat::copyVectorizedKernel", REFORMAT, 2, 0.014),
        ('weird "quoted", kernel', "PWN(PWN(/act/Sigmoid), /act/Mul)", 2, 0.012),
        ("void genericReformat::copyVectorizedKernel", None, 2, 0.01),
        ("sm80_xmma_fprop_implicit_gemm_f16f16", None, 2, 0.004),
    ]
    assert kernels[0].name == CONV
    assert (kernels[0].mean_ms, kernels[0].onnx_nodes) == (0.02, ["/conv1/Conv", "/relu1/Relu"])


def test_a_recording_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with refused(UsageProblem):
        nsys_kernels(tmp_path, [], change="DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;")
    (tmp_path / "nsys.sqlite").write_bytes(b"SQLite format 3\0 and no more")
    with refused(UsageProblem):
        read_nsys(tmp_path / "nsys.sqlite", LayerIndex([]))


def test_ncu_launches_of_one_layer_form_one_kernel(fp16: list[Operation]) -> None:
    kernels = ncu_raw.read_kernels(sample("ncu-raw.csv"), LayerIndex(fp16))
    assert [(kernel.layer, kernel.launches, kernel.total_ms) for kernel in kernels] == [
        ("/conv1/Conv + /relu1/Relu", 2, 0.016),
        (REFORMAT, 1, 0.002016),
        (None, 1, 0.000984),
    ]
    conv = kernels[0]
    assert conv.onnx_nodes == ["/conv1/Conv", "/relu1/Relu"]
    # weighted by time: 4 µs at 10 % and 12 µs at 30 %; a metric that is "n/a" is left out
    assert conv.metrics == {
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 25.0,
        "dram__bytes_read.sum": 2560.0,
        "launch__registers_per_thread": 64.0,
    }
    assert kernels[1].metrics["dram__bytes_read.sum"] == 12288


@pytest.fixture
def recorded() -> tuple[list[Operation], list[Kernel]]:
    """Layers and kernels that `profile --ncu` recorded on an H200."""
    records = read_records(SAMPLES / "ncu-h200.jsonl")
    layers = [one for one in records if isinstance(one, Operation)]
    return layers, [one for one in records if isinstance(one, Kernel)]


# A row's cell of ranges holds the layer's JSON with quotes that ncu does not escape, and so is torn at its commas.
@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), ('"12"\n', '""\n'), ('"Name": "r1"', '"Name": "pool:0"')],
    ids=["as it is", "empty last metric", "tensor named after another layer"],
)
def test_a_recording_of_an_h200_gives_its_kernels(
    old: str, new: str, recorded: tuple[list[Operation], list[Kernel]]
) -> None:
    layers, kernels = recorded
    assert [kernel.layer for kernel in kernels] == ["pool", "second_conv", "first_conv + first_relu"]
    text = sample("ncu-h200.csv")
    assert old in text
    sums = {"share", "metrics"}  # which Python 3.12 rounds otherwise than 3.11
    for found, kernel in zip(ncu_raw.read_kernels(text.replace(old, new), LayerIndex(layers)), kernels, strict=True):
        assert found.model_dump(exclude=sums) == kernel.model_dump(exclude=sums)
        assert found.share == pytest.approx(kernel.share)
        assert found.metrics == pytest.approx(kernel.metrics)


def test_a_layers_name_may_hold_colons() -> None:
    layer = Operation(kind="layer", index=0, name="onnx::Conv_5")
    found = LayerIndex([layer]).find(["TensorRT:ExecutionContext::enqueue", "TensorRT:onnx::Conv_5:none:none"])
    assert found is layer
    assert LayerIndex([layer]).find(["TensorRT:onnx::Conv_55"]) is None


@pytest.mark.parametrize("text", ["", "==ERROR== ERR_NVGPUCTRPERM\n", "No kernels were profiled.\n"])
def test_output_without_a_table_is_told_with_the_line_that_says_why(text: str) -> None:
    with refused(UsageProblem):
        ncu_raw.read_kernels(text, LayerIndex([]))


def test_units_and_figures() -> None:
    assert nanoseconds(2.0, "us") == 2000.0
    assert nanoseconds(2.0, "nsecond") == 2.0
    with refused(UsageProblem):
        nanoseconds(1.0, "byte")
    assert number("10,196,000") == 10196000.0
    assert number("n/a") is None


@pytest.mark.parametrize("row", ["1", "1,2,3"])
def test_a_row_that_does_not_fit_is_named(row: str) -> None:
    with refused(UsageProblem):
        read_table(f"noise\na,b\n1,2\n{row}\n", ("a", "b"))


def test_a_quoted_cell_may_hold_line_breaks() -> None:
    assert read_table('a,b\n"x\n\ny",2\n', ("a", "b")) == [{"a": "x\n\ny", "b": "2"}]


HEADER = (
    '"ID","Process ID","Process Name","Host Name","thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:'
    'Msg_Type:Msg","Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg","Kernel Name","Context",'
    '"Stream","Block Size","Grid Size","Device","CC","gpu__time_duration.sum"'
)
UNITS = '"","","","","","","","","","","","","","ns"'
KERNEL = '"void conv<float, 4>(int)","1","13","(128, 1, 1)","(8, 1, 1)","0","9.0","4,000"'
LAYER = "TensorRT:/conv1/Conv + /relu1/Relu:none:none:none:none:none:none"
QUOTED = f'"71  ""TensorRT:ExecutionContext::enqueue:none:none:none:none:none:none""  ""{LAYER}"" "'


def ncu_text(ranges: str) -> str:
    return f'==PROF== Connected to process 71\n{HEADER}\n{UNITS}\n"0","71","python3.12","127.0.0.1",{ranges}{KERNEL}\n'


def test_ncu_rows_of_several_processes_are_read(fp16: list[Operation]) -> None:
    text = ncu_text(f'{QUOTED},"",') + ncu_text('"","",').replace('"ns"', '"us"')
    kernels = ncu_raw.read_kernels(text, LayerIndex(fp16))
    assert [(kernel.layer, kernel.total_ms) for kernel in kernels] == [
        (None, 4.0),
        ("/conv1/Conv + /relu1/Relu", 0.004),
    ]


@pytest.mark.parametrize(
    "text",
    [
        ncu_text('"","",').replace(f",{KERNEL}", ""),
        ncu_text('"","",').replace(',"9.0","4,000"', ""),
        f"{HEADER}\n{UNITS}\n==WARNING== Too late\n",
        f"{HEADER}\n",
        "==PROF== Connected\n==WARNING== No kernels were profiled.\n",
    ],
    ids=["short row", "cut row", "units alone", "header alone", "no header"],
)
def test_ncu_output_without_a_whole_kernel_is_an_error(text: str) -> None:
    with refused(UsageProblem):
        ncu_raw.read_kernels(text, LayerIndex([]))
