"""What a snapshot of a text leaves out, and what it keeps."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import onnxruntime as ort
import pytest
from tests import texts
from tests.texts import masked, without_reasons

from trt_workbench.core.errors import UsageProblem


def test_places_versions_and_sizes_of_this_machine_are_masked(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    text = f"onnxruntime {ort.__version__}. 3.7 GiB of memory are free, sha256 {'0a' * 32}: {tmp_path / 'm.onnx'}"
    kept = "onnxruntime <version>. <memory> of memory are free, sha256 <hash>: <tmp>/m.onnx"
    assert masked(text, pytestconfig) == kept
    for own in ("TensorRT 8.6.1 and 10.16.1, AP 0.29704, 31.25 ms, 3 of 4 rows", "/models/a.onnx has 2.5 GiB"):
        assert masked(own, pytestconfig) == own


def test_only_the_words_of_libraries_are_no_part_of_a_message() -> None:
    def message(read: object) -> str:
        try:
            read()  # type: ignore[operator]
        except ValueError as error:
            problem = UsageProblem(f"The file cannot be read ({error}).")
            problem.__cause__ = error
        return without_reasons(problem)

    def ours() -> None:
        raise ValueError("a row is missing")

    assert message(lambda: json.loads("{")) == "The file cannot be read (<reason>)."
    assert message(lambda: int("one")) == "The file cannot be read (<reason>)."
    assert message(ours) == "The file cannot be read (a row is missing)."


@pytest.mark.parametrize(
    ("updating", "said", "other"),
    [(False, "two", "test_a"), (True, "one", "test_a"), (True, "two", "test_a[y]"), (None, "two", "test_a")],
)
def test_cases_that_say_the_same_share_a_snapshot(
    updating: bool | None, said: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {"test_a": "one", "test_a[x]": "own", "test_a.1": "next"}
    written = "".join(f"# name: {name}\n  '{text}'\n# ---\n" for name, text in entries.items())
    (tmp_path / "m.ambr").write_text(f"# serializer version: 1\n{written}")
    option = SimpleNamespace(update_snapshots=updating)
    monkeypatch.setattr(texts, "FOLDER", tmp_path)
    running = [] if updating is None else [SimpleNamespace(config=SimpleNamespace(option=option))]
    monkeypatch.setattr(texts, "_running", running)
    monkeypatch.setattr(texts, "_said", said)

    def name(case: str, index: int = 0) -> str:
        place = SimpleNamespace(snapshot_name=case, filepath=texts.ROOT / "tests" / "m.py")
        return str(texts.extension().get_snapshot_name(test_location=place, index=index))

    assert [name("test_a[x]"), name("test_a[y]"), name("test_b[x]")] == ["test_a[x]", other, "test_b[x]"]
    assert name("test_a[x]", 1) == ("test_a[x].1" if updating else "test_a.1")


@pytest.mark.parametrize("file", sorted(texts.FOLDER.glob("*.ambr")), ids=lambda file: file.stem)
def test_a_snapshot_is_of_a_test_that_is_there(file: Path) -> None:
    module = texts.ROOT.joinpath("tests", *file.stem.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    tests = set(re.findall(r"^# name: (?:\w+\.)?(test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
    assert tests
    assert not tests - set(re.findall(r"def (test_\w+)", module))
