from pathlib import Path

import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.backends.samples import file_name
from trt_workbench.core.errors import UsageProblem
from trt_workbench.infer.checks import read_expected


@pytest.mark.parametrize(
    ("places", "sample", "only", "value"),
    [
        (["s/a b", "t/a b", "a b"], "s", False, 0),
        (["s.npz", "s/a b"], "s", False, 0),
        (["a b", "t/a b"], "s", True, 0),
        (["t/a b"], "s", True, 0),
        (["t/a b"], "s", False, None),
        (["t/a b", "u/a b"], "s", True, None),
        ([], "s", True, None),
    ],
)
def test_where_references_are_looked_for(
    tmp_path: Path, places: list[str], sample: str, only: bool, value: int | None
) -> None:
    folder = tmp_path / "expected"
    for number, place in enumerate(places):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if place.endswith(".npz"):
            np.savez(path, **{"a b": np.full(2, number)})
        else:
            np.save(path.parent / f"{file_name(path.name)}.npy", np.full(2, number))
    if value is None:
        with refused(UsageProblem):
            read_expected(folder, sample, ["a b"], only=only)
        return
    assert read_expected(folder, sample, ["a b"], only=only)["a b"].tolist() == [value] * 2


def test_every_output_has_a_reference_of_one_place(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", a=np.ones(2), b=np.zeros(2), more=np.ones(1))
    assert read_expected(tmp_path, "t", ["b", "a"], only=False).keys() == {"a", "b"}
    with refused(UsageProblem):
        read_expected(tmp_path, "t", ["a", "d", "c"], only=False)
    (tmp_path / "s").mkdir()
    np.save(tmp_path / "s" / "a.npy", np.ones(2))
    with refused(UsageProblem):
        read_expected(tmp_path, "s", ["a", "b"], only=False)
