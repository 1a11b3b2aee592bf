"""Names of cards become architectures, each once; what nothing can be built for is one sentence."""

import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench_rtx.cards import architectures, titled


@pytest.mark.parametrize(
    ("name", "sm"),
    [
        *((name, "sm120") for name in ("rtx5090", "RTX 5090", "GeForce RTX 5070 Ti", "sm120", "SM_120", "12.0", "120")),
        *((name, "sm89") for name in ("rtx4090", "L4", "l40s", "NVIDIA L40", "rtx-4080-super", "8.9")),
        *((name, "sm86") for name in ("a10", "rtx3090ti", "NVIDIA GeForce RTX 3060", "RTX A6000")),
        ("t4", "sm75"),
        ("a100", "sm80"),
        ("dgx spark", "sm121"),
    ],
)
def test_a_card_is_known_by_its_names(name: str, sm: str) -> None:
    assert architectures(name) == {sm: [name]}


def test_cards_of_one_architecture_are_built_for_once() -> None:
    found = architectures("rtx5090, sm120,l4")
    assert [titled(*one) for one in found.items()] == ["sm120 (rtx5090)", "sm89 (l4)"]


@pytest.mark.parametrize(
    "names",
    [
        "h200",
        "rtx5090,sm87",
        "rtx5091",
        "radeon",
        "sm99999",
        "",
        ",",
        "sm12\N{ARABIC-INDIC DIGIT ZERO}",
    ],
)
def test_what_cannot_be_built_for_is_refused(names: str) -> None:
    with refused(UsageProblem):
        architectures(names)
