"""What a bug report needs: the smallest wrong model, its arrays, a script that shows the difference, and the text."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.abilities import Reproduces, Reproduction
from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.registry import AUTO, get_backend
from trt_workbench.backends.samples import file_name
from trt_workbench.core.array_files import save_array
from trt_workbench.core.counts import counted
from trt_workbench.core.documents import write_json
from trt_workbench.core.elements import Kind, is_finite, kind, widened
from trt_workbench.core.files import write_text
from trt_workbench.core.gpu import driver_report
from trt_workbench.engine.profiles import Profile
from trt_workbench.model.weights import save_model
from trt_workbench.verify.bisect import FOLDER, Bisected
from trt_workbench.verify.opening import VerifyRequest

MODEL, SCRIPT = "minimal.onnx", "reproduce.py"

_BEGIN = """{said!r}
import pathlib, sys, urllib.parse
{imports}

here = pathlib.Path(__file__).resolve().parent
inputs, expected = (
    {{urllib.parse.unquote(file.stem): np.load(file) for file in sorted((here / folder).glob("*.npy"))}}
    for folder in ("inputs", "expected")
)
"""
_END = """wrong = False
for name, want in expected.items():
    got, exact = (one.astype(np.result_type(one, np.float64)) for one in (found[name], want))
    apart, largest = np.nanmax(abs(got - exact), initial=0), abs(exact[np.isfinite(exact)]).max(initial=0) or 1.0
    wrong |= not np.isclose(got, exact, 0, {explained:.3g} * largest, equal_nan=True).all()  # the precision's own
    print(f"{{name}} {{list(want.shape)}}: largest difference {{apart:.3g}}, largest value {{largest:.3g}}")
sys.exit(int(wrong))
"""
_WORKBENCH = """options = SessionOptions(precision={precision!r}, extra={extra!r})
session = require_backend({backend!r}).load(here / "minimal.onnx", options)
found = session.run(inputs)
"""


def write_bisected(request: VerifyRequest, found: Bisected, folder: Path) -> None:
    """Write what was found: `bisect.json`, and with a wrong part `minimal.onnx`, its arrays, script and report.

    Args:
        request: with the suspect backend.
        found: by `bisect`.
        folder: the run directory; all of it goes to `bisect` in it.

    Raises:
        OSError: a file cannot be written.
    """
    folder /= FOLDER
    folder.mkdir(exist_ok=True)
    write_json(folder / "bisect.json", bisected_document(request, found))
    outcome = found.outcome
    if outcome is None:
        return
    save_model(outcome.cut.model, folder / MODEL)
    for name, arrays in (("inputs", outcome.inputs), ("expected", outcome.expected), ("actual", outcome.found)):
        (folder / name).mkdir(exist_ok=True)
        for tensor, array in arrays.items():
            save_array(folder / name / f"{file_name(tensor)}.npy", array)
    write_text(folder / SCRIPT, script(request, found))
    write_text(folder / "report.md", report(request, found))


def bisected_document(request: VerifyRequest, found: Bisected) -> dict[str, Any]:
    """Return what was found as JSON values; docs/reference/verify.md has the keys."""
    outcome = found.outcome
    pairs = zip(found.nodes, found.operators, strict=True)
    apart = outcome.differences.values() if outcome else ()
    worst = max((one.max_abs for one in apart), default=0.0 if outcome and not found.crash else None)
    return {
        "schema_version": 1,
        "target": str(request.target),
        "backend": request.backend,
        "precision": request.precision,
        "case": found.case,
        "output": found.output,
        "crash": found.crash or None,
        "nodes": [{"name": name, "operator": operator} for name, operator in pairs],
        "first_wrong": found.first_wrong or None,
        "form": found.form,
        "marking_hides": found.marking_hides,
        "max_abs": worst if worst is not None and np.isfinite(worst) else None,
        "trials": found.trials,
        "trials_repeated": found.repeated,
        "seconds": found.seconds,
        "complete": found.complete,
        "reason": found.reason,
    }


def script(request: VerifyRequest, found: Bisected) -> str:
    """Return a script of at most 40 lines that runs `minimal.onnx` and prints how far its outputs are off."""
    outcome = found.outcome
    assert outcome is not None
    extra = {name: value for name, value in request.options.items() if name != "profiles"}
    own = None
    backend = None if request.backend == AUTO else get_backend(request.backend)
    if isinstance(backend, Reproduces):
        asked = SessionOptions(precision=request.precision, extra=extra, shapes=outcome.cut.profile)
        own = backend.reproduction(asked, outcome.provenance)
    own = own or _with_workbench(request, outcome.cut.profile, extra)
    explained = max((one.max_rel for one in outcome.limits.values()), default=0.0)
    said = f"{title(request, found).rstrip('.')}. Needs {own.needs}; exit code 1 if the result is wrong."
    return _BEGIN.format(said=said, imports=own.imports) + own.body + _END.format(explained=explained)


def _with_workbench(request: VerifyRequest, profile: Profile | None, extra: Mapping[str, Any]) -> Reproduction:
    options = {**extra, **({"profiles": [str(profile)]} if profile else {})}
    return Reproduction(
        "trt-workbench",
        "import numpy as np\nfrom trt_workbench.backends.base import SessionOptions\n"
        "from trt_workbench.backends.registry import AUTO, get_backend, require_backend",
        _WORKBENCH.format(backend=request.backend, precision=request.precision, extra=options),
    )


def title(request: VerifyRequest, found: Bisected) -> str:
    """Return the heading of a bug report."""
    counts = Counter(found.operators)
    operators = ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())
    # the first version is the runtime's own
    runtime = " ".join(["TensorRT" if request.runs_plans else request.backend, *[*request.versions.values()][:1]])
    return f"{runtime}: {'crash' if found.crash else 'wrong result'} of {operators} in {request.precision}"


def report(request: VerifyRequest, found: Bisected) -> str:
    """Return the text of a bug report in Markdown."""
    outcome = found.outcome
    assert outcome is not None
    shapes = {name: list(array.shape) for name, array in (*outcome.inputs.items(), *outcome.expected.items())}
    constant = {tensor.name: list(tensor.dims) for tensor in outcome.cut.model.graph.initializer}
    largest = {name: _largest(array) for name, array in outcome.expected.items()}
    apart = [
        f"| `{name}` | {shapes[name]} | {one.max_abs:.3g} | {largest[name]:.3g} | {one.rel_l2:.3g} "
        f"| {outcome.limits[name].rel_l2:.1g} |"
        for name, one in outcome.differences.items()
    ]
    nodes = [
        f"| `{node.name or '-'}` | {node.op_type} | {_tensors(node.input, shapes, constant)} "
        f"| {', '.join(f'`{one}`' for one in node.output)} |"
        for node in outcome.cut.model.graph.node
    ]
    hides = {
        True: "Marking every inner tensor of the model as an output hides the fault: the nodes must be fused.",
        False: "The fault also shows with every inner tensor of the model marked as an output.",
        None: "",
    }[found.marking_hides]
    what = f"the result is a crash: {found.crash}" if found.crash else "the result differs from theirs without an error"
    left = "" if found.complete else " The search reached its time limit: fewer nodes may be enough."
    return "\n".join(
        [
            f"# {title(request, found)}",
            "",
            f"{counted(len(found.nodes), 'node')} of `{request.target.name}` ({found.case}), cut out and fed with "
            f"values from ONNX Runtime's CPU provider: {what}. {hides}{left}".rstrip(),
            "",
            "## Versions",
            "",
            *(f"* {name}: {version}" for name, version in _versions(request, outcome.provenance).items()),
            "",
            "## How to reproduce",
            "",
            f"`python {SCRIPT}` loads `{MODEL}` and `inputs/`, and prints how far the outputs are from `expected/`.",
            "The outputs measured here are in `actual/`.",
            "",
            f"Options: precision {request.precision}"
            + "".join(f", {name}={value}" for name, value in sorted(request.options.items())),
            "",
            "## Differences",
            "",
            "| output | shape | largest difference | largest value | relative L2 | explained by the precision |",
            "| --- | --- | --- | --- | --- | --- |",
            *apart,
            "",
            "## Nodes",
            "",
            "| node | operator | inputs | outputs |",
            "| --- | --- | --- | --- |",
            *nodes,
            "",
        ]
    )


def _tensors(names: Any, shapes: Mapping[str, list[int]], constant: Mapping[str, list[int]]) -> str:
    """Return a node's inputs, with shapes where they come from outside."""
    return ", ".join(
        f"`{name}`"
        + (f" {shapes[name]}" if name in shapes else f" {constant[name]} constant" if name in constant else "")
        for name in names
        if name
    )


def _versions(request: VerifyRequest, provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of everything that took part."""
    found = dict(request.versions)
    driver = driver_report()
    if driver["gpus"]:
        found |= {"gpu": driver["gpus"][request.device]["name"] if request.device < len(driver["gpus"]) else "unknown"}
        found |= {"driver": driver["driver_version"], "CUDA of the driver": driver["cuda_driver_version"]}
    asked = ("tensorrt", "driver", "gpu", "compute_capability")
    found |= {name: str(provenance[name]) for name in asked if provenance.get(name)}
    return {**found, "os": platform.platform(), "python": platform.python_version()}


def _largest(array: NDArray[Any]) -> float:
    if kind(array) is Kind.OTHER:
        return 0.0
    return float(np.abs(widened(array[is_finite(array)])).max(initial=0))
