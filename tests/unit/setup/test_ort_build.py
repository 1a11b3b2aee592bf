"""`build-ort`: what is built for which TensorRT and ONNX Runtime, resuming, checking, installing.

The build script of the stand-in source tree notes how it is called. That the real one takes the same words is in
test_ort_build_real.py.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.texts import refused

from trt_workbench.core.errors import CheckFailed, ComponentMissing, UsageProblem
from trt_workbench.setup import ort_build, ort_build_steps
from trt_workbench.setup.ort_build import build_ort
from trt_workbench.setup.ort_build_steps import LINKS, BuildRequest, BuildSteps, prepare_steps

PROVIDER_LIBRARY = "libonnxruntime_providers_tensorrt.so"
BUILD_SCRIPT = """
import pathlib, sys
words = sys.argv
value = lambda name: pathlib.Path(words[words.index(name) + 1])
assert value("--cudnn_home").is_dir() and value("--tensorrt_home").is_dir()
folder = value("--build_dir") / "Release"
folder.mkdir(parents=True, exist_ok=True)
with (folder.parent / "calls").open("a") as file:
    file.write(("update" if "--update" in words else "build") + "\\n")
if "--update" in words and (folder.parent / "no-network").exists():
    sys.exit(1)
if "--build" in words:
    if (folder.parent / "out-of-memory").exists():
        sys.exit(137)
    (folder / "dist").mkdir(exist_ok=True)
    (folder / "dist" / "onnxruntime_gpu-1.22.0-cp311-cp311-linux_x86_64.whl").write_text("wheel")
    (folder / "libonnxruntime_providers_tensorrt.so").write_text("built")
"""
HEADER = "#define NV_TENSORRT_MAJOR {}\n#define NV_TENSORRT_MINOR {}\n#define NV_TENSORRT_PATCH {}\n"
LIBRARIES = ("libnvinfer", "libnvinfer_plugin", "libnvonnxparser")


def tensorrt(folder: Path, major: int, minor: int = 0, patch: int = 0) -> Path:
    """A TensorRT as `setup-tensorrt` makes it of wheels: libraries under one name each."""
    for part in ("include", "lib"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "include" / "NvInferVersion.h").write_text(HEADER.format(major, minor, patch))
    for stem in LIBRARIES:
        (folder / "lib" / f"{stem}.so.{major}").touch()
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source tree of ONNX Runtime."""
    root = tmp_path / "source"
    (root / "tools" / "ci_build").mkdir(parents=True)
    (root / "tools" / "ci_build" / "build.py").write_text(BUILD_SCRIPT)
    (root / "VERSION_NUMBER").write_text("1.22.0\n")
    return root


@pytest.fixture
def plugin_source(tmp_path: Path) -> Path:
    """A source tree of the plug-in."""
    root = tmp_path / "plugin-source"
    (root / "src").mkdir(parents=True)
    (root / "src" / "tensorrt_provider_factory.cc").touch()
    return root


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set which ONNX Runtime is installed."""

    def install(**versions: str) -> None:
        found = {name.replace("_", "-"): version for name, version in versions.items()}
        monkeypatch.setattr(ort_build_steps, "installed_packages", lambda: found)

    return install


@pytest.fixture
def request_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: Callable[..., None]
) -> Callable[..., BuildRequest]:
    """A machine with onnxruntime-gpu 1.22.0, TensorRT 8.6.0, CUDA, cuDNN, and tools that note their words."""
    installed(onnxruntime_gpu="1.22.0")
    monkeypatch.setenv("TRTW_ROOT", str(tmp_path / "root"))
    for folder, file in (("cuda/bin", "nvcc"), ("cudnn/include", "cudnn.h"), ("tools", "ninja"), ("capi", "libx.so")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / file).write_text("#!/bin/sh\n")
        (tmp_path / folder / file).chmod(0o755)
    cmake = tmp_path / "tools" / "cmake"
    cmake.write_text(
        f'#!/bin/sh\necho "$CXXFLAGS" "$@" >> {tmp_path}/cmake\ntouch {tmp_path}/build/libonnxruntime_ep_tensorrt.so\n'
    )
    cmake.chmod(0o755)
    (tmp_path / "capi" / PROVIDER_LIBRARY).write_text("the wheel's")
    (tmp_path / "capi" / "libonnxruntime.so.1.22.0").touch()
    monkeypatch.setattr(ort_build_steps, "onnxruntime_libraries", lambda: tmp_path / "capi")
    monkeypatch.setattr(ort_build, "onnxruntime_libraries", lambda: tmp_path / "capi")
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:/usr/bin:/bin")
    opened = {"tensorrt_library": str(tmp_path / "trt" / "lib" / "libnvinfer.so.8")}
    monkeypatch.setattr(ort_build, "open_library", lambda *_: opened)

    def make(**changes: object) -> BuildRequest:
        request = BuildRequest(
            architectures=("120",),
            jobs=3,
            tensorrt_home=tensorrt(tmp_path / "trt", 8, 6),
            cuda_home=tmp_path / "cuda",
            cudnn_home=tmp_path / "cudnn",
            build_dir=tmp_path / "build",
        )
        return replace(request, **changes)

    return make


def words(plan: BuildSteps, name: str) -> tuple[str, ...]:
    return next(step.words for step in plan.steps if step.name == name)


@pytest.mark.parametrize(
    ("release", "wheels", "product", "what"),
    [
        ((11, 1), {"onnxruntime": "1.31.1"}, "plugin", ""),
        ((10, 16), {"onnxruntime_gpu": "1.31.1"}, "plugin", ""),
        ((10, 16), {"onnxruntime_gpu": "1.23.0"}, "plugin", ""),
        ((10, 16), {"onnxruntime_gpu": "1.22.1"}, "provider", ""),
        ((8, 6), {"onnxruntime_gpu": "1.31.1"}, "provider", ""),
        ((8, 6), {"onnxruntime": "1.31.1"}, "provider", "itself needs onnxruntime-gpu and TensorRT 10 or older"),
        ((11, 1), {"onnxruntime_gpu": "1.22.1"}, "provider", "onnxruntime-gpu 1.22.1 cannot load a provider for"),
        ((10, 16), {"onnxruntime": "1.22.1"}, "provider", "needs ONNX Runtime 1.23.0 and TensorRT 10 or newer"),
        ((11, 1), {}, "plugin", "ONNX Runtime is not installed"),
    ],
)
def test_what_is_built_follows_from_tensorrt_and_onnx_runtime(
    request_for: Callable[..., BuildRequest],
    installed: Callable[..., None],
    tmp_path: Path,
    release: tuple[int, int],
    wheels: dict[str, str],
    product: str,
    what: str,
) -> None:
    installed(**wheels)
    plan = prepare_steps(request_for(tensorrt_home=tensorrt(tmp_path / "other", *release)))
    assert plan.product == product
    assert what in " ".join(plan.missing)
    assert bool(plan.missing) == bool(what)
    assert prepare_steps(request_for(whole=True)).product == "whole"


def test_the_plug_in_is_built_for_the_major_version_of_the_headers_and_for_the_card(
    request_for: Callable[..., BuildRequest],
    installed: Callable[..., None],
    source: Path,
    plugin_source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(onnxruntime="1.31.1")
    home = tensorrt(tmp_path / "other", 11, 1)
    opened = {"tensorrt_library": str(home / "lib" / "libnvinfer.so.11")}
    monkeypatch.setattr(ort_build, "open_library", lambda *_: opened)
    monkeypatch.setenv("CXXFLAGS", "-O1")
    request = request_for(tensorrt_home=home, sources=(source, plugin_source), definitions=("A=B",))
    product, place = build_ort(request, lambda _: None)
    assert (product, place.name) == ("plugin", "ep-tensorrt-1.31.1-11.so")
    assert place.is_relative_to(tmp_path / "root" / "extern")
    assert place.is_file()
    configured, built = (tmp_path / "cmake").read_text().splitlines()
    for word in ("-DTRT_MAJOR_VERSION=11", "-DCMAKE_CUDA_ARCHITECTURES=120", "-DCMAKE_BUILD_TYPE=Release", "-DA=B"):
        assert word in configured.split()
    assert built.endswith("--target onnxruntime_ep_tensorrt")
    # names that the plug-in uses and TensorRT 11 does not have
    assert configured.startswith("-O1 '-DsetDynamicRange(low,high)=isNetworkInput()' -DkFP16=kTF32 ")
    ten = request_for(tensorrt_home=tensorrt(tmp_path / "ten", 10, 16), sources=(source, plugin_source))
    assert "CXXFLAGS" not in " ".join(words(prepare_steps(ten), "configure"))
    # the plug-in looks for libraries in TENSORRT_HOME itself, and for all of ONNX Runtime in one place
    links = tmp_path / "build" / LINKS
    for stem in LIBRARIES:
        assert (links / "tensorrt" / f"{stem}.so.11").resolve() == home / "lib" / f"{stem}.so.11"
        assert (links / "tensorrt" / "lib" / f"{stem}.so").resolve() == home / "lib" / f"{stem}.so.11"
    assert (links / "onnxruntime" / "lib" / "libonnxruntime.so").resolve() == tmp_path / "capi/libonnxruntime.so.1.22.0"
    assert (links / "onnxruntime" / "include").readlink() == source / "include/onnxruntime/core/session"


def test_a_provider_is_built_alone_and_the_wheels_own_is_kept(
    request_for: Callable[..., BuildRequest], source: Path, tmp_path: Path
) -> None:
    request, said = request_for(sources=(source,)), []
    assert build_ort(request, said.append) == ("provider", tmp_path / "capi" / PROVIDER_LIBRARY)
    assert (tmp_path / "capi" / PROVIDER_LIBRARY).read_text() == "built"
    kept = tmp_path / "capi" / f"{PROVIDER_LIBRARY}.1.22.0"
    assert kept.read_text() == "the wheel's"
    assert said[-1] == f"The wheel's own library is kept: {kept}"
    build_ort(request, said.append)
    assert kept.read_text() == "the wheel's"


@pytest.mark.parametrize(
    "opened",
    [
        {"tensorrt_library": "/usr/lib/libnvinfer.so.8"},
        {},
        {"library": "libcublas.so.12: cannot open shared object file"},
        {"error": "Segmentation fault"},
    ],
)
def test_what_does_not_open_this_tensorrt_is_not_installed(
    request_for: Callable[..., BuildRequest],
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: dict[str, str],
) -> None:
    monkeypatch.setattr(ort_build, "open_library", lambda *_: opened)
    with refused(CheckFailed):
        build_ort(request_for(sources=(source,)), lambda _: None)
    assert [path.name for path in (tmp_path / "capi").glob(f"*{PROVIDER_LIBRARY}*")] == [PROVIDER_LIBRARY]
    assert (tmp_path / "capi" / PROVIDER_LIBRARY).read_text() == "the wheel's"
    build_ort(request_for(sources=(source,), install=False), lambda _: None)


def test_all_of_it_is_installed_by_pip(
    request_for: Callable[..., BuildRequest], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *pip*) echo "$@" >> {tmp_path}/pip;; *) exec {sys.executable} "$@";; esac\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    product, wheel = build_ort(request_for(sources=(source,), whole=True), lambda _: None)
    assert (product, wheel.suffix) == ("whole", ".whl")
    removed, added = (tmp_path / "pip").read_text().splitlines()
    assert removed.endswith("uninstall --yes onnxruntime onnxruntime-gpu")
    assert added.endswith(str(wheel))


def test_what_is_missing_is_named_and_stops_the_build(
    request_for: Callable[..., BuildRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDNN_HOME", raising=False)
    monkeypatch.setattr(ort_build_steps, "driver_report", lambda: {"gpus": []})
    monkeypatch.setenv("PATH", str(tmp_path / "no"))
    bare = request_for(tensorrt_home=tmp_path / "no", cuda_home=tmp_path / "no", cudnn_home=None, architectures=())
    told = " ".join(prepare_steps(bare).missing)
    for text in ("headers", "nvcc", "cuDNN", "--arch", "git is not on PATH", "ninja is not on PATH"):
        assert text in told
    with pytest.raises(ComponentMissing, match="The build cannot start"):
        build_ort(bare, lambda _: None)
    assert not (tmp_path / "build").exists()
    (tensorrt(tmp_path / "partly", 10) / "lib" / "libnvonnxparser.so.10").unlink()
    assert "libnvonnxparser is missing" in " ".join(
        prepare_steps(request_for(tensorrt_home=tmp_path / "partly")).missing
    )


@pytest.mark.parametrize(
    ("gib", "changes", "expected"),
    [
        (64, {"whole": True}, 8),
        (16, {"whole": True}, 3),
        (16, {}, 8),
        (4, {}, 2),
        (4, {"whole": True}, 0),
        (1, {}, 0),
    ],
)
def test_parallelism_follows_the_memory(
    request_for: Callable[..., BuildRequest],
    monkeypatch: pytest.MonkeyPatch,
    gib: int,
    changes: dict[str, bool],
    expected: int,
) -> None:
    monkeypatch.setattr(ort_build_steps, "available_bytes", lambda: gib * 2**30)
    monkeypatch.setattr(ort_build_steps, "available_processors", lambda: 8)
    plan = prepare_steps(request_for(jobs=None, **changes))
    command = words(plan, "compile")
    assert command[command.index("--parallel") + 1] == str(expected or 1)
    each = 5 if changes else 2
    told = f"One compiler takes up to {each} GiB, and {gib} GiB of memory is free; pass --jobs 1 to try."
    assert plan.missing == (() if expected else (told,))
    assert prepare_steps(request_for(jobs=1, **changes)).missing == ()


def test_a_build_goes_on_where_it_stopped(
    request_for: Callable[..., BuildRequest], source: Path, tmp_path: Path
) -> None:
    request, said = request_for(sources=(source,), install=False), []
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "out-of-memory").touch()
    with refused(ComponentMissing):
        build_ort(request, said.append)
    (tmp_path / "build" / "out-of-memory").unlink()
    assert build_ort(request, said.append) == ("provider", tmp_path / "build" / "Release" / PROVIDER_LIBRARY)
    # CMake and ninja know what is done
    assert (tmp_path / "build" / "calls").read_text().split() == ["update", "build"] * 2


def test_a_build_folder_of_another_tensorrt_is_refused(
    request_for: Callable[..., BuildRequest], source: Path, tmp_path: Path
) -> None:
    build_ort(request_for(sources=(source,), install=False), lambda _: None)
    with refused(UsageProblem):
        build_ort(request_for(sources=(source,), tensorrt_home=tensorrt(tmp_path / "8.6.1", 8, 6, 1)), lambda _: None)


def test_a_source_tree_fits_the_installed_onnx_runtime(
    request_for: Callable[..., BuildRequest],
    installed: Callable[..., None],
    source: Path,
    plugin_source: Path,
    tmp_path: Path,
) -> None:
    for version in ("1.21.0", "1.24.0"):
        (source / "VERSION_NUMBER").write_text(f"{version}\n")
        with refused(UsageProblem):
            build_ort(request_for(sources=(source,)), lambda _: None)
    installed(onnxruntime="1.23.0")
    home = tensorrt(tmp_path / "other", 10)
    with refused(UsageProblem):
        build_ort(request_for(sources=(source, plugin_source), tensorrt_home=home), lambda _: None)
    build_ort(request_for(sources=(source,), whole=True, install=False), lambda _: None)


def test_without_a_network_the_failed_step_says_what_to_give(
    request_for: Callable[..., BuildRequest], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ort_build_steps, "REPOSITORY", (tmp_path / "absent").as_uri())
    with refused(ComponentMissing):
        build_ort(request_for(), lambda _: None)
    assert list((tmp_path / "root" / "extern").rglob("v1.22.0")) == []
    (tmp_path / "build").mkdir(exist_ok=True)
    (tmp_path / "build" / "no-network").touch()
    with refused(ComponentMissing):
        build_ort(request_for(sources=(source,)), lambda _: None)


def test_the_tag_is_cloned_once(
    request_for: Callable[..., BuildRequest], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ["git", "-C", str(source), "-c", "user.name=t", "-c", "user.email=t@t"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"], ["tag", "v1.22.0"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(ort_build_steps, "REPOSITORY", source.as_uri())
    request = request_for(install=False)
    build_ort(request, lambda _: None)
    clone = tmp_path / "root" / "extern" / "onnxruntime" / "v1.22.0"
    assert (clone / "tools" / "ci_build" / "build.py").is_file()
    (clone / "mark").touch()
    build_ort(request, lambda _: None)
    assert (clone / "mark").exists()
    assert [path.name for path in clone.parent.iterdir() if path.name.startswith(".")] == []


def test_dry_run_prints_every_command_and_does_nothing(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    home = tensorrt(tmp_path / "trt", 10, 16)
    command = [sys.executable, str(root / "tasks" / "build-ort"), "--dry-run", "--arch", "90", "--build-dir"]
    command += [str(tmp_path / "b"), "--tensorrt-home", str(home)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for step in ("clone", "checkout", "configure", "compile", "install"):
        assert f"# {step}\n" in out
    assert "CMAKE_CUDA_ARCHITECTURES=90" in out
    out = subprocess.run([*command, "--whole", "--json"], capture_output=True, text=True, check=True).stdout
    steps = [entry["step"] for entry in json.loads(out)["commands"]]
    assert steps == ["clone", "configure", "compile", "uninstall", "install"]
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("architecture", ["foo", "12", "8.6", "50"])
def test_an_architecture_that_does_not_exist(architecture: str) -> None:
    with refused(UsageProblem):
        prepare_steps(BuildRequest(architectures=(architecture,)))


def test_a_folder_that_is_no_source_tree_and_a_definition_without_a_value(tmp_path: Path) -> None:
    with refused(UsageProblem):
        prepare_steps(BuildRequest(sources=(tmp_path,), architectures=("120", "90a")))
    with refused(UsageProblem):
        prepare_steps(BuildRequest(definitions=("CMAKE_BUILD_TYPE",)))


def test_an_interrupt_says_what_is_kept(
    request_for: Callable[..., BuildRequest], source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ort_build, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        build_ort(request_for(sources=(source,)), lambda _: None)
    assert interrupt.value.__notes__ == [
        f"The clone and what is built are kept; the same command goes on from there: {source}"
    ]
