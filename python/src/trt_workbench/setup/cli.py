"""`setup-tensorrt`: bring TensorRT's libraries and headers together for the native core."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    handled,
    print_found,
    say,
    stderr_console,
)
from trt_workbench.console.progress import at_stage
from trt_workbench.report.tables import Column, Table
from trt_workbench.setup.tensorrt_headers import HEADERS_GIT, PARSER_GIT


class Origin(enum.StrEnum):
    """Where libraries may come from."""

    auto = "auto"
    conda_forge = "conda-forge"
    wheels = "wheels"
    pinned = "pinned"
    pypi = "pypi-8.6.0"


if TYPE_CHECKING:
    from trt_workbench.console.common import Parts


@handled
def setup_tensorrt(
    *,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--from", help="An installed TensorRT: unpacked archive, /usr for Debian packages, or a container."
        ),
    ] = None,
    source: Annotated[
        Origin,
        typer.Option(
            "--source",
            help="Kind of source if no folder is given: auto takes the environment's TensorRT, else the pinned wheel.",
        ),
    ] = Origin.auto,
    index_url: Annotated[
        str | None, typer.Option(help="Package index for the wheel; by default NVIDIA's for the pinned one.")
    ] = None,
    headers_git: Annotated[
        str, typer.Option(help="Repository with TensorRT's include/ at a tag per version: URL or path.")
    ] = HEADERS_GIT,
    parser_headers_git: Annotated[
        str, typer.Option(help="Repository with NvOnnxParser.h for versions whose tag lacks it: URL or path.")
    ] = PARSER_GIT,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the libraries instead of linking them.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Create the tree again even if it is complete.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read by `handled`
) -> None:
    """Bring TensorRT's libraries and headers into this workspace.

    It creates extern/tensorrt/VERSION/{include,lib} and the link `current`, in the repository or else in the user's
    cache. Safe to run again.
    """
    from trt_workbench.core.workspace import tensorrt_root
    from trt_workbench.setup import run as setup

    request = setup.SetupRequest(
        root=tensorrt_root(),
        folder=folder,
        source=source.value,
        index=index_url,
        headers_git=headers_git,
        parser_headers_git=parser_headers_git,
        copy=copy,
        force=force,
    )
    with at_stage(lambda: None if stderr_console().is_terminal else "Setting up TensorRT"):  # pip draws its own bar
        result = setup.setup_tensorrt(request, say)
    print_found(_document(result), _shown, as_json=as_json)


def _document(result: Any) -> dict[str, Any]:
    from trt_workbench.engine.tensorrt import format_version

    tree = result.tree
    return {
        "schema_version": 1,
        "version": format_version(result.version),
        "source": result.source,
        "changed": result.changed,
        "root": str(tree.root),
        "headers_version": tree.headers_version and format_version(tree.headers_version),
        "library_version": tree.library_version and format_version(tree.library_version),
        "library": str(tree.library),
        "parser": str(tree.parser),
        "plugin": tree.plugin and str(tree.plugin),
        "trtexec": tree.trtexec and str(tree.trtexec),
        "notes": result.notes,
    }


def _shown(document: dict[str, Any]) -> Parts:
    from trt_workbench.core.launcher import task

    parts = ("headers_version", "library_version", "library", "parser", "plugin", "trtexec")
    rows = [(one.replace("_", " "), document[one] or "not found") for one in parts]
    return [
        Table(("part", Column("found", "1", long=True)), rows),
        *document["notes"],
        f"{'Set up' if document['changed'] else 'Already set up'}: {document['root']}",
        f"Next, build the native core against it: {task('build-native')}." if document["changed"] else "",
    ]
