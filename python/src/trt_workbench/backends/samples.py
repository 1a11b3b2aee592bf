"""Input arrays for an engine: from `.npy` and `.npz` files or folders of them, one sample after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.array_files import is_array, load_arrays
from trt_workbench.core.counts import counted, some
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_there


@dataclass(frozen=True)
class Sample:
    """One set of inputs.

    Attributes:
        name: unique among the samples, and safe as the name of a folder.
        inputs: arrays by input name, as the files hold them.
    """

    name: str
    inputs: dict[str, NDArray[Any]]


def file_name(tensor: str) -> str:
    """Return the name of a tensor's file without suffix: what a path cannot hold is percent-encoded."""
    return quote(tensor, safe=" ()[],;:+=@$#!~^") if tensor not in (".", "..") else quote(tensor).replace(".", "%2E")


def split_source(source: str) -> tuple[str, Path]:
    """Return `NAME=` and the path of `PATH` or `NAME=PATH`, whatever the names of the inputs are."""
    parts = source.split("=")
    places = [Path("=".join(parts[first:])) for first in range(len(parts))]
    named = next((first for first, place in enumerate(places) if place.exists()), int(len(parts) > 1))
    return "".join(f"{part}=" for part in parts[:named]), places[named]


def source_path(source: str) -> Path:
    """Return the path of `PATH` or `NAME=PATH`."""
    return split_source(source)[1]


def require_sources(sources: Sequence[str]) -> None:
    """Raise UsageProblem unless there is something at every path of `read_samples`; needs no model."""
    for source in sources:
        require_there("input", source_path(source))


def read_samples(sources: Sequence[str], specs: Sequence[TensorSpec]) -> Iterator[Sample]:
    """Yield the samples in `sources`, reading the next one while one is used.

    Args:
        sources: `PATH` or `NAME=PATH`. Files together make one sample: `.npz` by the names in it, `.npy` by the name
            given or in the model's order. One folder holds one sample per `.npz`, per folder, or, for a model with one
            input, per `.npy`. A folder for each input (`NAME=FOLDER`) holds one sample per file name.
        specs: the model's inputs.

    Raises:
        UsageProblem: a file is absent or no array file, or the files do not fit the model's inputs.
    """
    parts = [_split(source, specs) for source in sources]
    for _, path in parts:
        require_there("input", path)
    return _prefetched(_samples(parts, specs))


def _split(source: str, specs: Sequence[TensorSpec]) -> tuple[str | None, Path]:
    for spec in specs:
        if source.startswith(f"{spec.name}="):
            return spec.name, Path(source.removeprefix(f"{spec.name}="))
    name, separator, _ = source.partition("=")
    if separator and not Path(source).exists():
        raise UsageProblem(f"The model has no input {name!r}; it takes {some(specs, mark='; ')}.")
    return None, Path(source)


def _samples(parts: Sequence[tuple[str | None, Path]], specs: Sequence[TensorSpec]) -> Iterator[Sample]:
    folders = [path for _, path in parts if path.is_dir()]
    if not folders:
        yield _one(parts[0][1].stem, parts, specs)
    elif len(folders) != len(parts):
        raise UsageProblem(f"Give either files or folders as input, not both: {folders[0]}")
    elif all(name is not None for name, _ in parts):
        yield from _matched(parts, specs)
    elif len(parts) == 1:
        yield from _folder(folders[0], specs)
    else:
        raise UsageProblem(
            f"Several folders need the names of their inputs, such as {specs[0].name}=FOLDER: {folders[0]}"
        )


def _matched(parts: Sequence[tuple[str | None, Path]], specs: Sequence[TensorSpec]) -> Iterator[Sample]:
    """One folder an input: files of one name belong together."""
    names = sorted(path.name for path in _arrays(parts[0][1]))
    for _, folder in parts[1:]:
        others = {path.name for path in _arrays(folder)}
        if alone := sorted(others ^ set(names)):
            raise UsageProblem(f"The input folders do not have the same files; {alone[0]} has no counterpart: {folder}")
    if not names:
        raise UsageProblem(f"The folder has no .npy or .npz file: {parts[0][1]}")
    for name in names:
        yield _one(Path(name).stem, [(tensor, folder / name) for tensor, folder in parts], specs)


def _folder(folder: Path, specs: Sequence[TensorSpec]) -> Iterator[Sample]:
    entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    arrays = [path for path in entries if path.suffix == ".npy" and path.is_file()]
    found = [path for path in entries if path.is_dir() or path.suffix == ".npz"]
    if arrays and not found and (len(specs) > 1 or {path.stem for path in arrays} == {file_name(specs[0].name)}):
        yield _one(folder.name, [(_named(path, specs), path) for path in arrays], specs)
        return
    if stems := [path.stem for path in (*arrays, *found)]:
        if twice := sorted({stem for stem in stems if stems.count(stem) > 1}):
            raise UsageProblem(f"Two samples are named {twice[0]}; rename one: {folder}")
    else:
        raise UsageProblem(f"The folder has no .npy or .npz file: {folder}")
    for path in sorted((*arrays, *found)):
        inside = _arrays(path) if path.is_dir() else []
        named = [(_named(file, specs), file) for file in inside] if path.is_dir() else [(None, path)]
        yield _one(path.name if path.is_dir() else path.stem, named, specs)


def _arrays(folder: Path) -> list[Path]:
    """Return the array files in a folder, in alphabetical order, without hidden ones."""
    return sorted(path for path in folder.iterdir() if is_array(path.name))


def _named(path: Path, specs: Sequence[TensorSpec]) -> str | None:
    return next((spec.name for spec in specs if file_name(spec.name) == path.stem), None)


def _one(name: str, parts: Sequence[tuple[str | None, Path]], specs: Sequence[TensorSpec]) -> Sample:
    """Read the files of one sample; arrays without a name take the inputs that are left, in the model's order."""
    named: dict[str, NDArray[Any]] = {}
    unnamed: list[NDArray[Any]] = []
    known = {spec.name for spec in specs}
    for tensor, path in parts:
        for key, array in load_arrays(path).items():
            chosen = tensor or (key if key in known else None)
            if chosen is None and key and not key.startswith("arr_"):
                raise UsageProblem(f"The file has {key!r}, but the model takes {some(specs, mark='; ')}: {path}")
            if chosen is None:
                unnamed.append(array)
            elif chosen in named:
                raise UsageProblem(f"Input {chosen} is given twice: {path}")
            else:
                named[chosen] = array
    left = [spec.name for spec in specs if spec.name not in named]
    if len(left) != len(unnamed):
        count = len(named) + len(unnamed)
        have = counted(count, "array")
        where = parts[0][1] if parts else name
        raise UsageProblem(f"Sample {name} has {have}, but the model takes {some(specs, mark='; ')}: {where}")
    named |= dict(zip(left, unnamed, strict=True))
    return Sample(name, {spec.name: named[spec.name] for spec in specs})


def _prefetched(samples: Iterator[Sample]) -> Iterator[Sample]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(next, samples, None)
        while (sample := waiting.result()) is not None:
            waiting = reader.submit(next, samples, None)
            yield sample
