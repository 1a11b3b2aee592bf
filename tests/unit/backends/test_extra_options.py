from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tests.texts import refused

from trt_workbench.backends.extra_options import Option, checked_extra
from trt_workbench.core.errors import UsageProblem

TABLE = {
    "device_id": Option(int, default=0, minimum=0),
    "limit": Option(int, minimum=1, maximum=4096),
    "graph": Option(bool, default=False),
    "mode": Option(("fast", "small"), default="fast"),
    "folder": Option(Path),
    "scale": Option(float),
    "names": Option(dict),
}


def test_defaults_and_values_as_a_command_line_gives_them() -> None:
    given = {"limit": "2048", "graph": "true", "folder": "/a", "scale": "0.5"}
    assert checked_extra("b", TABLE, given) == {
        "device_id": 0,
        "limit": 2048,
        "graph": True,
        "mode": "fast",
        "folder": Path("/a"),
        "scale": 0.5,
        "names": None,
    }
    names = {"names": MappingProxyType({"out": "in"})}
    assert checked_extra("b", TABLE, names)["names"] == {"out": "in"}


@pytest.mark.parametrize(
    "given",
    [
        {"grph": True},
        {"zzz": 1},
        {"device_id": -1},
        {"device_id": 1.5},
        {"device_id": True},
        {"limit": "many"},
        {"limit": 4097},
        {"graph": 1},
        {"mode": "slow"},
        {"folder": 3},
        {"names": "out=in"},
        {"names": {"out": 1}},
    ],
)
def test_what_does_not_fit_is_named(given: dict[str, Any]) -> None:
    with refused(UsageProblem):
        checked_extra("b", TABLE, given)
