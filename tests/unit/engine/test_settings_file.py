from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.build_options import BUILT
from trt_workbench.engine.options import BuildSettings, load_settings


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "build.yaml"
    path.write_text(text)
    return path


def test_a_file_and_the_command_line(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
precision: int8+fp16
workspace_mib: 512
profiles:
  - images:1x3x64x64/8x3x64x64/16x3x64x64
  - images: 1x3x32x32
calibration: {data: calib, batch: 4}
timing_cache: my.timing
plugins: [plugins/a.so]
""",
    )
    settings = load_settings(file, {"workspace_mib": 1024, "optimization_level": 5})
    assert settings.precision == ("fp16", "int8")
    assert settings.workspace_mib == 1024
    assert settings.optimization_level == 5
    assert [str(profile) for profile in settings.profiles] == [
        "images:1x3x64x64/8x3x64x64/16x3x64x64",
        "images:1x3x32x32",
    ]
    assert settings.calibration.data == tmp_path / "calib"
    assert settings.timing_cache == tmp_path / "my.timing"
    assert settings.plugins == (tmp_path / "plugins" / "a.so",)


def test_paths_of_the_command_line_are_not_moved(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, "timing_cache: a"), {"timing_cache": Path("b")})
    assert settings.timing_cache == Path("b")
    assert load_settings(write(tmp_path, "timing_cache: 'off'")).timing_cache_off


@pytest.mark.parametrize(
    "text",
    [
        "precision: fp16\nworkspce_mib: 3\n",
        "calibration:\n  data: x\n  algoritm: minmax\n",
        "optimization_level: 9\n",
        "precision: fp17\n",
        "tactic_sources: [CUDNN]\n",
        "profiles:\n- x:1x2\n- x:4/2/8\n",
        "precision: fp16\nprecision: fp32\n",
        "profiles: &all [*all]\n",
        f"profiles: {'[' * 3000}{']' * 3000}\n",
        "precision: [fp16\n",
        "timing_cache: !!timestamp x\n",
        "- a\n",
        "gpu_fallback: true\n",
        "memory_pools: {workspce: 3}\n",
        "zzz: 1\n",
        "precision: fp16\nworkspace_mib: 1.0e+308\n",
        "workspace_mib: .inf\n",
        f"memory_pools:\n  workspace: {'9' * 20}\n",
        f"precision: fp16\nworkspace_mib: '{'1' * 400}'\n",
        "memory_pools:\n  workspace: '1e300'\n",
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, text: str) -> None:
    with refused(UsageProblem):
        load_settings(write(tmp_path, text))


def test_a_wrong_option_is_named_as_an_option() -> None:
    with refused(UsageProblem):
        load_settings(None, {"optimization_level": 7})
    with refused(UsageProblem):
        load_settings(None, {"optimization_level": 7}, {"optimization_level": "--level"}.__getitem__)


def test_an_absent_file(tmp_path: Path) -> None:
    with refused(UsageProblem):
        load_settings(tmp_path / "none.yaml")


@given(st.lists(st.sampled_from(BUILT), min_size=1, max_size=5))
def test_one_meaning_has_one_spelling(names: list[str]) -> None:
    forward, backward = BuildSettings(precision=names), BuildSettings(precision="+".join(reversed(names)))
    assert forward == backward
    assert set(forward.precision) - {"fp32"} == set(names) - {"fp32"}
