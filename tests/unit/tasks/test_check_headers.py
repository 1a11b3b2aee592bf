import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "tasks" / "check-headers"
OLD = "#define NV_TENSORRT_MAJOR 8 //!< m\n#define NV_TENSORRT_MINOR 6\n#define NV_TENSORRT_PATCH 0\n"
NEW = (
    "#define TRT_MAJOR_ENTERPRISE 10\n#define TRT_MINOR_ENTERPRISE 16\n#define TRT_PATCH_ENTERPRISE 1\n"
    "#define NV_TENSORRT_MAJOR TRT_MAJOR_ENTERPRISE\n"
)


@pytest.fixture(scope="module")
def check():
    loader = SourceFileLoader("check_headers", str(SCRIPT))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    yield module
    del sys.modules[loader.name]


@pytest.fixture
def tree(tmp_path, check):
    def make(name, version=OLD, folder="include"):
        include = tmp_path / name / folder
        include.mkdir(parents=True)
        for header in check.NEEDED:
            (include / header).write_text(version if header == "NvInferVersion.h" else "")
        return tmp_path / name

    return make


@pytest.mark.parametrize(("text", "expected"), [(OLD, "8.6.0"), (NEW, "10.16.1")])
def test_versions_of_both_kinds_of_header(check, tree, text, expected):
    assert check.version_of(tree("trt", text) / "include") == expected


def test_every_tree_counts_once(check, tree, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    installed, given = tree("extern/tensorrt/8.6.0"), tree("given", folder=".")
    (tmp_path / "extern/tensorrt/current").symlink_to(installed)
    monkeypatch.setenv("TENSORRT_HOME", str(installed))
    assert check.find_trees([given]) == [given, installed / "include"]


def run(script, *words):
    return subprocess.run(
        [sys.executable, "-B", str(script), *map(str, words)],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_folder_without_headers_is_bad_usage(tmp_path):
    done = run(SCRIPT, tmp_path)
    assert done.returncode == 2
    assert str(tmp_path) in done.stderr


def test_no_headers_at_all_is_a_missing_component(tmp_path):
    (tmp_path / "tasks").mkdir()
    shutil.copy(SCRIPT, tmp_path / "tasks")
    done = run(tmp_path / "tasks" / "check-headers")
    assert done.returncode == 3
    assert "setup-tensorrt" in done.stderr


def test_headers_that_cannot_be_used_fail_the_check(check, tree, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.delenv("TENSORRT_HOME", raising=False)
    monkeypatch.setattr(check.shutil, "which", lambda name: name)
    monkeypatch.setattr(check, "compile_against", lambda *_: "does not compile: log")
    monkeypatch.setattr(sys, "argv", ["check-headers", str(tree("bad"))])
    assert check.main() == 1
    assert "failed" in capsys.readouterr().out
