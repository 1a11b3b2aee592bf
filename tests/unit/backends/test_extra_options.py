from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from trt_workbench.backends.extra_options import Option, checked_extra
from trt_workbench.core.errors import UsageProblem

TABLE = {
    "device_id": Option(int, default=0, minimum=0),
    "limit": Option(int, minimum=1),
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
    ("given", "text"),
    [
        ({"grph": True}, "did you mean graph"),
        ({"zzz": 1}, "there are: device_id"),
        ({"device_id": -1}, "at least 0"),
        ({"device_id": 1.5}, "a whole number"),
        ({"device_id": True}, "a whole number"),
        ({"limit": "many"}, "a whole number, at least 1, not 'many'"),
        ({"graph": 1}, "true or false"),
        ({"mode": "slow"}, "one of fast, small"),
        ({"folder": 3}, "a path"),
        ({"names": "out=in"}, "names by name, not 'out=in'"),
        ({"names": {"out": 1}}, "names by name"),
    ],
)
def test_what_does_not_fit_is_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageProblem, match=text):
        checked_extra("b", TABLE, given)
