from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.samples import file_name, read_samples, split_source
from trt_workbench.core.array_files import count_rows, load_arrays
from trt_workbench.core.errors import UsageProblem
from trt_workbench.upgrade.settings import UpgradeSettings

X, Y = TensorSpec("x", "float32", (2,)), TensorSpec("in/y:0", "float32", (2,))


def save(path: Path, value: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.full(2, value, np.float32))
    return path


def values(sources: list[str], *specs: TensorSpec) -> dict[str, dict[str, float]]:
    return {
        sample.name: {name: float(array[0]) for name, array in sample.inputs.items()}
        for sample in read_samples(sources, specs)
    }


@given(st.text(min_size=1, max_size=40))
def test_file_names_are_safe_and_tell_tensors_apart(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:  # lone surrogates: ONNX names are UTF-8
        return
    made = file_name(name)
    assert "/" not in made
    assert "\0" not in made
    assert made not in (".", "..")
    assert file_name(name + "/") != made


def test_a_path_may_have_equals_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(Path("run=1") / "x.npy", 1)
    split = {"x=./run=1/x.npy": "x=", "run=1/x.npy": "", "a=b=run=1/x.npy": "a=b=", "x=absent.npy": "x=", "no": ""}
    assert {one: split_source(one)[0] for one in split} == split
    assert all(split_source(one)[1] == Path(one.removeprefix(name)) for one, name in split.items())
    read = UpgradeSettings(inputs=("x=run=1/x.npy",))
    assert read.input_words == ["--inputs", f"x={tmp_path}/run=1/x.npy"]


def test_a_folder_of_one_input_is_a_sample_per_file(tmp_path: Path) -> None:
    for number in (2, 1):
        save(tmp_path / f"s{number}.npy", number)
    np.savez(tmp_path / "s3.npz", x=np.full(2, 3, np.float32))
    assert values([str(tmp_path)], X) == {"s1": {"x": 1}, "s2": {"x": 2}, "s3": {"x": 3}}


def test_a_folder_of_files_named_as_the_inputs_is_one_sample(tmp_path: Path) -> None:
    save(tmp_path / "one" / "x.npy", 1)
    save(tmp_path / "one" / f"{file_name(Y.name)}.npy", 2)
    assert values([str(tmp_path / "one")], X, Y) == {"one": {"x": 1, Y.name: 2}}


def test_a_folder_of_folders_is_a_sample_per_folder(tmp_path: Path) -> None:
    for number in range(2):
        save(tmp_path / f"s{number}" / "x.npy", number)
        save(tmp_path / f"s{number}" / f"{file_name(Y.name)}.npy", 10 + number)
    assert values([str(tmp_path)], X, Y) == {"s0": {"x": 0, Y.name: 10}, "s1": {"x": 1, Y.name: 11}}


def test_a_folder_for_each_input_matches_by_file_name(tmp_path: Path) -> None:
    for number in range(2):
        save(tmp_path / "a" / f"s{number}.npy", number)
        save(tmp_path / "b" / f"s{number}.npy", 10 + number)
    sources = [f"x={tmp_path / 'a'}", f"{Y.name}={tmp_path / 'b'}"]
    assert values(sources, X, Y) == {"s0": {"x": 0, Y.name: 10}, "s1": {"x": 1, Y.name: 11}}
    (tmp_path / "a" / "._s0.npy").write_bytes(b"of macOS")
    assert len(values(sources, X, Y)) == 2
    (tmp_path / "b" / "s1.npy").unlink()
    with refused(UsageProblem):
        values(sources, X, Y)


def test_unnamed_arrays_take_the_inputs_that_are_left(tmp_path: Path) -> None:
    first, second = save(tmp_path / "first.npy", 1), save(tmp_path / "second.npy", 2)
    assert values([str(first), f"x={second}"], X, Y) == {"first": {"x": 2, Y.name: 1}}
    np.savez(tmp_path / "both.npz", np.full(2, 5, np.float32), np.full(2, 6, np.float32))
    assert values([str(tmp_path / "both.npz")], X, Y) == {"both": {"x": 5, Y.name: 6}}


def test_a_stream_reads_no_more_than_one_sample_ahead(tmp_path: Path) -> None:
    for number in range(4):
        save(tmp_path / f"s{number}.npy", number)
    samples = read_samples([str(tmp_path)], [X])
    assert next(samples).name == "s0"
    (tmp_path / "s3.npy").write_bytes(b"damaged")
    assert [next(samples).name, next(samples).name] == ["s1", "s2"]
    with refused(UsageProblem):
        next(samples)


@pytest.mark.parametrize("names", [[], ["a.npy", "a.npz"], ["folder/"]])
def test_folders_that_hold_no_samples_are_told(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        elif name.endswith(".npy"):
            save(tmp_path / name, 1)
        else:
            np.savez(tmp_path / name, x=np.ones(2, np.float32))
    with refused(UsageProblem):
        values([str(tmp_path)], X)


def test_files_and_folders_do_not_mix(tmp_path: Path) -> None:
    file, folder = save(tmp_path / "a.npy", 1), tmp_path / "folder"
    folder.mkdir()
    with refused(UsageProblem):
        values([str(file), str(folder)], X, Y)
    with refused(UsageProblem):
        values([str(folder), str(folder)], X, Y)


@given(st.binary(max_size=200))
@example(b"PK\x03\x04 an archive that ends early")
@example(b"\x93NUMPY\x01\x00")
def test_damaged_files_are_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    for name in ("a.npy", "a.npz"):
        (folder / name).write_bytes(content)
        for read in (load_arrays, count_rows):
            with pytest.raises(UsageProblem, match="cannot be read as arrays"):
                read(folder / name)
