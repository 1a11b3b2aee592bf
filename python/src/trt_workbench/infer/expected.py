"""The reference outputs that `infer-engine --expect` names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trt_workbench.backends.samples import file_name
from trt_workbench.core.array_files import load_arrays
from trt_workbench.core.errors import UsageProblem


def read_expected(folder: Path, sample: str, outputs: list[str], *, only: bool) -> dict[str, NDArray[Any]]:
    """Return the reference outputs of a sample.

    Looked for as `FOLDER/SAMPLE/OUTPUT.npy`, `FOLDER/SAMPLE.npz`, and, where `only` says that there is one sample,
    `FOLDER/OUTPUT.npy`, or the one folder in FOLDER; so the `outputs/` folder of an earlier run can be named.

    Raises:
        UsageProblem: a reference is missing or no array.
    """
    together = folder / f"{sample}.npz"
    if together.is_file():
        arrays = load_arrays(together)
        if missing := sorted(set(outputs) - arrays.keys()):
            raise UsageProblem(f"The reference lacks the output {missing[0]}: {together}")
        return {name: arrays[name] for name in outputs}
    places = [folder / sample]
    if only:
        inside = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
        places += [folder, *(inside if len(inside) == 1 else [])]
    for place in places:
        files = {name: place / f"{file_name(name)}.npy" for name in outputs}
        if all(file.is_file() for file in files.values()):
            return {name: load_arrays(file)[""] for name, file in files.items()}
    raise UsageProblem(
        f"The reference outputs of sample {sample} are missing: {sample}/{file_name(outputs[0])}.npy and the like, or "
        f"{sample}.npz, in {folder}"
    )
