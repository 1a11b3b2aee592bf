"""Records that were changed and sealed anew: the seal proves damage, not origin, so that what is inside is checked."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.in_app import stdout_of, trtw
from tests.onnx_text import write_onnx
from tests.streaming_models import attention, contract_of, write_contract

from trt_workbench.core.array_files import load_arrays, save_arrays
from trt_workbench.core.hashing import hash_document, hash_file

VALUES = (0, -1, 1, 2**31, 2**63, -(2**63), 1e300, 0.5, "", "../x", None, [], {}, True, [1], [2**40], [[]], "float32")
CHANGES: dict[str, Any] = {
    "scalar": lambda _: np.float32(1),
    "empty": lambda one: one[:0] if one.ndim else np.zeros(0, one.dtype),
    "flat": lambda one: one.reshape(-1),
    "deeper": lambda one: one[None],
    "half": lambda one: one.reshape(-1)[: max(1, one.size // 2)],
    "double": lambda one: np.concatenate([one.reshape(-1)] * 2),
    "int64": lambda one: np.full(one.shape, 2**62),
    "bool": lambda one: np.ones(one.shape, bool),
    "text": lambda one: np.full(one.shape, "x"),
    "complex": lambda one: np.ones(one.shape, np.complex64),
    "nan": lambda one: np.full(one.shape, np.nan, np.float32),
    "infinite": lambda one: np.full(one.shape, -np.inf, np.float32),
    "float64": lambda one: np.full(one.shape, 1e300),
    "dates": lambda one: np.zeros(one.shape, "M8[s]"),
    "records": lambda one: np.zeros(one.shape, [("a", "<f4")]),
    "absent": None,
}


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place and place[0] not in ("sha256", "schema_version", "provenance") and place[-1] != "sha256":
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*place, key))


def change_document(document: Any, random: Random) -> None:
    *way, last = random.choice(list(places(document)))
    for key in way:
        document = document[key]
    match random.choice(["set", "set", "remove", "twice"]):
        case "remove":
            del document[last]
        case "twice" if isinstance(document, list):
            document.insert(last, copy.deepcopy(document[last]))
        case _:
            document[last] = random.choice(VALUES)


def change_arrays(path: Path, random: Random) -> None:
    arrays = load_arrays(path)
    name, change = random.choice(list(arrays)), CHANGES[random.choice(list(CHANGES))]
    one = arrays.pop(name)
    save_arrays(path, arrays if change is None else {**arrays, name: np.asarray(change(one))})


def seal(folder: Path, document: Any) -> None:
    parts = [document]
    for part in parts:
        if isinstance(part, dict):
            if isinstance(part.get("file"), str) and "sha256" in part and (folder / part["file"]).is_file():
                part["sha256"] = hash_file(folder / part["file"])
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    document["sha256"] = hash_document({key: value for key, value in document.items() if key != "sha256"})
    (folder / "record.json").write_text(json.dumps(document))


@pytest.fixture(scope="module", params=["eval-stream", "verify"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], Path]:
    """A command, and the record that it makes."""
    folder = tmp_path_factory.mktemp("recorded")
    if request.param == "verify":
        text = "g (float[N,3] x, float[N,3] y) => (float[N,3] s, float[N,3] p) { s = Add(x, y) p = Mul(x, y) }"
        words = ["verify", write_onnx(folder / "m.onnx", text), "--backend", "ort-cpu", "--quick"]
        stdout_of(*words, "--reference", "ort-cpu", "--record", "--output", folder / "run")
    else:
        write_contract(folder / "c.json", contract_of("attention"))
        words = ["eval-stream", attention(folder), "--contract", folder / "c.json", "--backend", "ort-cpu"]
        words += ["--chunks", "4", "--no-report"]
        stdout_of(*words, "--record", "--output", folder / "run")
    return list(words), folder / "run" / "reference"


@pytest.mark.long(but=4)
@pytest.mark.parametrize("seed", range(24))
def test_a_changed_record_is_refused_or_compared(
    seed: int, recorded: tuple[list[object], Path], tmp_path: Path
) -> None:
    words, record = recorded
    random = Random(seed)
    folder = shutil.copytree(record, tmp_path / "record")
    document = json.loads((folder / "record.json").read_text())
    if seed % 3:
        change_arrays(random.choice(sorted(folder.glob("*.npz"))), random)
    else:
        change_document(document, random)
    seal(folder, document)
    done = trtw(*words, "--reference", folder, "--output", tmp_path / "run")  # a traceback fails the test
    assert done.exit_code in (0, 1, 2), done.output
    assert done.exit_code != 2 or sum(line.startswith("error: ") for line in done.stderr.splitlines()) == 1
