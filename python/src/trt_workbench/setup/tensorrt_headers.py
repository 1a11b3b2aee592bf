"""TensorRT's headers from its public source repository, at the tag of one version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.engine.tensorrt import Version, format_version, headers_version

HEADERS_GIT = "https://github.com/NVIDIA/TensorRT"
PARSER_GIT = "https://github.com/onnx/onnx-tensorrt"
PARSER_HEADER = "NvOnnxParser.h"

_TAG = re.compile(r"refs/tags/v?(\d+)\.(\d+)(?:\.(\d+))?(?:\.\d+)?$")
_PARSER_REF = re.compile(r"refs/(?:tags/release|heads|tags)/v?(\d+)\.(\d+)(?:\.\d+)*(?:-(GA|EA))?$")
_TIMEOUT_S = 900


def fetch_headers(version: Version, url: str, destination: Path) -> str:
    """Put the folder `include/` of TensorRT's repository, at the tag of `version`, into `destination`.

    The public tags do not name every patch release; without the exact one, the nearest of the same major.minor serves.

    Returns:
        The tag.

    Raises:
        UsageProblem: the repository cannot be read or has no fitting tag.
        ComponentMissing: git is not installed.
    """
    refs = _list_refs(url)
    tags = [(ref, tuple(int(part or 0) for part in match.groups())) for ref in refs if (match := _TAG.match(ref))]
    same = [(abs(found[2] - version[2]), ref) for ref, found in tags if found[:2] == version[:2]]
    if not same:
        raise UsageProblem(
            f"There is no tag for TensorRT {format_version(version)}; pass another repository with --headers-git: {url}"
        )
    ref = min(same)[1]
    _checkout(url, ref, "include", destination)
    found = headers_version(destination)
    if found is None or found[:2] != version[:2]:
        state = format_version(found) if found else "no version"
        raise UsageProblem(
            f"Tag {ref.removeprefix('refs/tags/')} has headers of {state}, not {format_version(version)}: {url}"
        )
    return ref.removeprefix("refs/tags/")


def fetch_parser_header(version: Version, url: str, destination: Path) -> str:
    """Put `NvOnnxParser.h` of the parser's repository for `version` into `destination`.

    Returns:
        The tag or branch.

    Raises:
        UsageProblem: the repository cannot be read or has nothing for this version.
        ComponentMissing: git is not installed.
    """
    matches = [(ref, match) for ref in _list_refs(url) if (match := _PARSER_REF.match(ref))]
    # 8.6.0 was an early access release, 8.6.1 the general one; tags before branches.
    wanted = "EA" if version[2] == 0 and version[0] < 10 else "GA"
    fitting = [
        (match[3] != wanted, not ref.startswith("refs/tags"), ref)
        for ref, match in matches
        if (int(match[1]), int(match[2])) == version[:2]
    ]
    if not fitting:
        raise UsageProblem(
            f"There is no parser for TensorRT {format_version(version)}; pass another repository with "
            f"--parser-headers-git: {url}"
        )
    ref = min(fitting)[2]
    _checkout(url, ref, PARSER_HEADER, destination)
    return ref.split("/", 2)[2]


def _checkout(url: str, ref: str, path: str, destination: Path) -> None:
    work = destination.absolute().parent / f".{destination.name}.git"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        _git("init", "-q", str(work))
        # blob:none: only the files of `path` travel, where the server can filter
        _git("-C", str(work), "fetch", "-q", "--depth", "1", "--filter=blob:none", "--", _address(url), ref)
        # a promisor remote is needed to fetch the filtered files at checkout
        _git("-C", str(work), "config", "remote.origin.url", _address(url))
        _git("-C", str(work), "config", "remote.origin.promisor", "true")
        _git("-C", str(work), "checkout", "-q", "FETCH_HEAD", "--", path)
        destination.mkdir(parents=True, exist_ok=True)
        source = work / path
        if source.is_dir():
            shutil.copytree(source, destination, dirs_exist_ok=True)
        else:
            shutil.copy2(source, destination / path)
    except subprocess.CalledProcessError as error:
        raise UsageProblem(f"git could not fetch {path} at {ref} ({_reason(error)}): {url}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _list_refs(url: str) -> list[str]:
    try:
        lines = _git("ls-remote", "--tags", "--heads", "--", _address(url)).splitlines()
    except subprocess.CalledProcessError as error:
        raise UsageProblem(f"The repository cannot be read ({_reason(error)}): {url}") from error
    return [line.split("\t", 1)[1] for line in lines if "\t" in line and not line.endswith("^{}")]


def _address(url: str) -> str:
    # a path is made absolute, since git runs elsewhere
    return str(Path(url).resolve()) if Path(url).exists() else url


def _git(*arguments: str) -> str:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env=environment,
            # elsewhere than in the current folder, whose repository may name programs to run
            cwd="/",
        )
    except FileNotFoundError as error:
        raise ComponentMissing("git is not installed, but is needed to fetch TensorRT's headers.") from error
    return done.stdout


def _reason(error: subprocess.CalledProcessError) -> str:
    lines = str(error.stderr).strip().splitlines()
    # git ends with advice over several lines; the error comes before it
    fatal = [line.removeprefix("fatal: ") for line in lines if line.startswith("fatal: ")]
    return (fatal or lines[-1:] or [f"exit code {error.returncode}"])[0]
