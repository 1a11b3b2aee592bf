"""export-llm: load a model, export its graphs, prove each and write a manifest; kept by hash for eval-llm."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from filelock import FileLock
from pydantic import Field
from typing_extensions import TypedDict

from trt_workbench.backends.base import Session
from trt_workbench.backends.language import Logits, Tokens
from trt_workbench.backends.registry import REFERENCE, availability, load_reference
from trt_workbench.backends.torch.llm import TorchLlm
from trt_workbench.backends.torch.llm_model import load_causal_lm
from trt_workbench.core.documents import Inside, having, read_document, write_json
from trt_workbench.core.elements import errors, is_finite
from trt_workbench.core.errors import CheckFailed, ComponentMissing, UsageProblem
from trt_workbench.core.files import refuse_foreign, scratch_folder
from trt_workbench.core.hashing import has_hash, hash_document, hash_file
from trt_workbench.core.kept import seal, sealed
from trt_workbench.core.launcher import package
from trt_workbench.core.settings import parts
from trt_workbench.core.workspace import cache_root
from trt_workbench.engine.written_models import check_model_output
from trt_workbench.llm.agreement import is_broken
from trt_workbench.llm.graph import GRAPHS, INLINE_LIMIT_BYTES, SLOTTED, ExportedGraph, GraphKind, export_graph
from trt_workbench.llm.models import SessionCache, SessionLogits, SessionSlots
from trt_workbench.model.llm_directory import TOKENIZER_FILES, LlmDirectory
from trt_workbench.model.opened import Model
from trt_workbench.model.opsets import DEFAULT_OPSET

RELATIVE_TOLERANCE = 1e-4
"""Largest difference of a logit, as a share of the largest logit or of 1: fp32 rounding is a hundred times smaller."""

_CASES = ((1, 1), (3, 11), (1, 64))
_PROMPT_SHARE = 3  # a third of the sequence is the prompt


class ExportedModel(Protocol):
    """The model that was exported, on PyTorch."""

    def logits(self, input_ids: Tokens) -> Logits:
        """Return the logits, float32 [B,S,V], of sequences int64 [B,S]."""


def prove_export(
    graph: ExportedGraph, reference: ExportedModel, vocabulary: int, positions: int | None, seed: int = 0
) -> dict[str, Any]:
    """Run random tokens through the exported graph and the model it came from.

    A cached graph is started with a third of each sequence and then given single tokens, as a step graph is throughout.

    Args:
        graph: what was exported.
        reference: the PyTorch model.
        vocabulary: tokens are drawn below this.
        positions: longest sequence that the model takes; None for any.
        seed: of the tokens.

    Returns:
        `cases` with `batch`, `length`, `max_abs_difference` and `max_abs_logit`, and the `relative_tolerance`.

    Raises:
        CheckFailed: a logit differs by more than the tolerance or is NaN on one side, or the graph does not run.
        ComponentMissing: ONNX Runtime is not there.
        UsageProblem: ONNX Runtime cannot load the graph, or a logit of PyTorch is not finite.
    """
    random = np.random.default_rng(seed)
    limit = min(size for size in (positions, graph.cache_length, _CASES[-1][1]) if size)
    cases = []
    with load_reference(graph.path) as session:
        fixed = session.inputs[0].shape[0]
        for batch, length in dict.fromkeys((fixed or rows, min(tokens, limit)) for rows, tokens in _CASES):
            tokens = random.integers(0, vocabulary, (batch, length))
            expected = reference.logits(tokens)
            if is_broken(expected):
                raise UsageProblem(
                    f"PyTorch itself computes logits that are not finite at batch {batch}, length {length}: the "
                    f"checkpoint has weights that are not finite or too large."
                )
            try:
                expected, got = _both_logits(graph, session, tokens, expected)
            except UsageProblem as error:
                raise _not_running(graph, batch, length, error) from error
            difference = float(errors(got, expected).max())
            size = float(np.abs(expected[is_finite(expected)]).max())
            case = {"batch": batch, "length": length, "max_abs_difference": difference, "max_abs_logit": size}
            cases.append(case)
            if difference > RELATIVE_TOLERANCE * max(1.0, size):
                raise _wrong(graph, case)
    return {"backend": REFERENCE, "relative_tolerance": RELATIVE_TOLERANCE, "cases": cases}


def _both_logits(graph: ExportedGraph, session: Session, tokens: Tokens, expected: Logits) -> tuple[Logits, Logits]:
    """Expected and found logits of the positions that the graph gives them for."""
    if graph.kind == "logits":
        return expected, SessionLogits(session).logits(tokens)
    model = SessionCache(session, graph) if graph.kind == "cached" else SessionSlots(session, graph)
    prompt = 1 if graph.kind == "step" else max(1, tokens.shape[1] // _PROMPT_SHARE)
    # expected and found logits [B,N,V] after a prompt of the first tokens and after each further one
    length = tokens.shape[1]
    found = [model.prefill(tokens[:, :prompt], length)]
    found += [model.step(tokens[:, position]) for position in range(prompt, length)]
    return expected[:, prompt - 1 :], np.stack(found, axis=1)


def _not_running(graph: ExportedGraph, batch: int, length: int, error: UsageProblem) -> CheckFailed:
    said = str(error).rsplit(": ", 1)[0]  # without the path, which is gone with the error
    return CheckFailed(
        f"The exported {graph.kind} graph fails at batch {batch}, length {length}, for which it was not traced: this "
        f"architecture makes decisions in Python that tracing does not keep. {said}"
    )


def _wrong(graph: ExportedGraph, case: dict[str, Any]) -> CheckFailed:
    return CheckFailed(
        f"The exported {graph.kind} graph differs from PyTorch: at batch {case['batch']}, length "
        f"{case['length']} a logit differs by {case['max_abs_difference']:.3g} (largest logit "
        f"{case['max_abs_logit']:.3g}). This architecture has behaviour that tracing does not keep."
    )


MANIFEST = "export.json"
DEFAULT_CACHE_LENGTH = 1024
# Bump to invalidate cached exports.
_RECIPE = 5
# Helps users and tools that read the ONNX files later.
_COPIED = (
    "config.json",
    "generation_config.json",
    *TOKENIZER_FILES,
)

Note = Callable[[str], None]


class Entry(TypedDict):
    """A graph in the manifest, as far as it is read."""

    kind: GraphKind
    file: Inside
    external_data: Inside | None
    layers: int
    cache_length: int | None
    batch: int | None


class Exported(TypedDict):
    """The manifest, as far as it is read; docs/reference has all keys."""

    schema_version: Literal[1]
    source: Annotated[dict[str, Any], having("sha256")]
    graphs: Annotated[list[Entry], Field(min_length=1)]


@dataclass(frozen=True)
class ExportSettings:
    """What is exported, and how.

    Attributes:
        graphs: which graphs.
        opset: version of the ONNX operator set.
        cache_length: slots of a static or step graph; None for the model's own positions, at most 1024.
        batch: fix the batch of these graphs; None leaves it dynamic.
        inline_limit_bytes: weights above this go into a file of their own.
        prove: compare each graph with PyTorch on ONNX Runtime.
    """

    graphs: tuple[GraphKind, ...] = ("logits",)
    opset: int = DEFAULT_OPSET
    cache_length: int | None = None
    batch: int | None = None
    inline_limit_bytes: int = INLINE_LIMIT_BYTES
    prove: bool = True

    def slots(self, directory: LlmDirectory) -> int:
        """Return the cache length that counts for a model.

        Raises:
            UsageProblem: it exceeds the model's positions.
        """
        positions = directory.positions
        if self.cache_length and positions and self.cache_length > positions:
            raise UsageProblem(
                f"The model has {positions} positions, so its cache cannot have {self.cache_length} slots."
            )
        return self.cache_length or min(positions or DEFAULT_CACHE_LENGTH, DEFAULT_CACHE_LENGTH)


def export_llm(
    directory: LlmDirectory, output: Path, settings: ExportSettings, say: Note = lambda _: None
) -> dict[str, Any]:
    """Export a model into a folder and prove every graph.

    Args:
        directory: the model.
        output: folder for the ONNX files and `export.json`; files of the same names are replaced.
        settings: what and how.
        say: called with the next step.

    Returns:
        The content of `export.json`.

    Raises:
        UsageProblem: the model cannot be loaded or exported, or the folder cannot be written.
        CheckFailed: an exported graph does not compute what PyTorch computes; nothing is kept.
        ComponentMissing: torch, transformers or ONNX Runtime is missing.
        DeviceFailure: there is not enough memory.
    """
    slots = settings.slots(directory)
    say(f"Loading {directory.model_type} model {directory.path}")
    model = load_causal_lm(directory, note=say)
    reference = TorchLlm(model, device="cpu", precision="fp32", compiled=False)
    vocabulary = model.get_input_embeddings().num_embeddings
    output.parent.mkdir(parents=True, exist_ok=True)
    entries = []
    with scratch_folder(f".{output.name}.", output.parent) as folder:
        for kind in settings.graphs:
            say(f"Exporting the {kind} graph at opset {settings.opset}")
            graph = export_graph(
                model,
                kind,
                Path(folder) / f"{kind}.onnx",
                opset=settings.opset,
                cache_length=slots if kind in SLOTTED else None,
                batch=settings.batch if kind in SLOTTED else None,
                inline_limit_bytes=settings.inline_limit_bytes,
            )
            proof = None
            if settings.prove:
                say(f"Comparing the {kind} graph with PyTorch")
                proof = prove_export(graph, reference, vocabulary, directory.positions)
            entries.append(_entry(graph, proof))
        manifest = {
            "schema_version": 1,
            "source": {
                "path": str(directory.path.absolute()),
                "model_type": directory.model_type,
                "sha256": directory.sha256,
                "parameters": reference.parameters,
                "vocabulary": vocabulary,
                "positions": directory.positions,
            },
            "versions": _versions(),
            "opset": settings.opset,
            "graphs": entries,
        }
        for source in _copied(directory):
            shutil.copy(source, folder)
        write_json(Path(folder) / MANIFEST, manifest)
        _move(Path(folder), output)
    return manifest


def _copied(directory: LlmDirectory) -> list[Path]:
    """Return the files of a model that are copied next to its graphs."""
    return [path for name in _COPIED if (path := directory.path / name).is_file()]


def exported_graph(
    directory: LlmDirectory, kind: GraphKind, settings: ExportSettings, say: Note = lambda _: None
) -> ExportedGraph:
    """Return one graph of a model from `exported-llm/` of the caches, exported and proved at its first use.

    Without a usable ONNX Runtime it is not proved, which is reported; an evaluation compares it with PyTorch anyway.

    Raises:
        As `export_llm`.
    """
    found = availability(REFERENCE)
    settings = dataclasses.replace(settings, graphs=(kind,), prove=settings.prove and found.ok)
    key = {
        "recipe": _RECIPE,
        "prove": settings.prove,
        "model": directory.sha256,
        "kind": kind,
        "opset": settings.opset,
        "slots": settings.slots(directory) if kind in SLOTTED else None,
        "batch": settings.batch if kind in SLOTTED else None,
        "inline_limit_bytes": settings.inline_limit_bytes,
        "versions": _versions(),
    }
    folder = cache_root() / "exported-llm" / hash_document(key)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        files = [folder / name for name in (MANIFEST, f"{kind}.onnx", f"{kind}.onnx.data", *_COPIED)]
        if not sealed(files, say):
            if not found.ok:
                say(f"The {kind} graph is not compared with PyTorch on its own: {found.reason}")
            export_llm(directory, folder, settings, say)
            seal(files)
    return _graph(folder, read_document(folder / MANIFEST, Exported)["graphs"][0])


def graph_from_export(
    folder: Path, directory: LlmDirectory, kind: GraphKind, slots: int = 0, batch: int | None = None
) -> ExportedGraph:
    """Return one graph of a folder that `export_llm` wrote, perhaps on another machine.

    Args:
        folder: with `export.json`.
        directory: the model that it must come from.
        kind: which graph.
        slots: least cache length of a static or step graph.
        batch: the batch that such a graph must be fixed to.

    Raises:
        UsageProblem: the folder is no export, is one of another model, or lacks the graph.
    """
    if not (folder / MANIFEST).exists():
        raise UsageProblem(f"The folder was not written by export-llm ({MANIFEST} is missing): {folder}")
    manifest = read_document(folder / MANIFEST, Exported, "export the graphs again")
    entries = {entry["kind"]: entry for entry in manifest["graphs"]}
    if manifest["source"]["sha256"] != directory.sha256:
        raise UsageProblem(
            f"The graphs were exported from another model than {directory.path}; export them again: {folder}"
        )
    entry = entries.get(kind)
    if entry is None or (entry["cache_length"] or 0) < slots or (batch and entry["batch"] != batch):
        # an export replaces the last one, so it has to hold what is there, too
        kinds = ",".join(other for other in GRAPHS if other == kind or other in entries)
        slots = max([slots, *(other["cache_length"] or 0 for other in entries.values())])
        batch = batch or next((other["batch"] for other in entries.values() if other["batch"]), None)
        options = f" --cache-length {slots}" if slots else ""
        options += f" --batch {batch}" if batch else ""
        raise UsageProblem(
            f"The export has no {kind} graph that fits; export all graphs again with "
            f"export-llm --graphs {kinds}{options}: {folder}"
        )
    return _graph(folder, entry)


def _graph(folder: Path, entry: Entry) -> ExportedGraph:
    data = folder / entry["external_data"] if entry["external_data"] else None
    return ExportedGraph(
        entry["kind"], folder / entry["file"], data, entry["layers"], entry["cache_length"], entry["batch"]
    )


def _entry(graph: ExportedGraph, proof: dict[str, Any] | None) -> dict[str, Any]:
    facts = Model.open(graph.path).facts
    files = [graph.path, *([graph.data] if graph.data else [])]
    return {
        "kind": graph.kind,
        "file": graph.path.name,
        "external_data": graph.data.name if graph.data else None,
        "size_bytes": sum(path.stat().st_size for path in files),
        "layers": graph.layers,
        "cache_length": graph.cache_length,
        "batch": graph.batch,
        "inputs": [_tensor(tensor) for tensor in facts.inputs],
        "outputs": [_tensor(tensor) for tensor in facts.outputs],
        "proof": proof,
    }


def _tensor(tensor: Any) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape or ())}


def _versions() -> dict[str, str]:
    """Return what an export depends on. Raises ComponentMissing where a package is not installed."""
    try:
        return {name: importlib.metadata.version(name) for name in ("torch", "transformers", "onnx")}
    except importlib.metadata.PackageNotFoundError as error:
        raise ComponentMissing(
            f"Exporting a language model needs {error.name}, which is not installed. {package('transformers')}"
        ) from error


def check_folder(directory: LlmDirectory, output: Path, settings: ExportSettings) -> None:
    """Check where an export is to be written, before the work begins.

    Raises:
        UsageProblem: it is no folder, or a file that no export wrote has the name of one of this.
    """
    if output.exists() and not output.is_dir():
        raise UsageProblem(f"The output is a file; name a folder: {output}")
    for model in (output / f"{kind}.onnx" for kind in settings.graphs):
        check_model_output(model, ())
    earlier = output / MANIFEST
    refuse_foreign(earlier, lambda file: "graphs" in read_document(file, dict[str, Any]))
    for source in () if earlier.exists() else _copied(directory):
        refuse_foreign(output / source.name, lambda file, source=source: has_hash(file, hash_file(source)))  # type: ignore[misc]


def _move(folder: Path, output: Path) -> None:
    """Move finished files to their place, the manifest last: a folder without one holds no finished export."""
    output.mkdir(exist_ok=True)
    (output / MANIFEST).unlink(missing_ok=True)
    for path in folder.glob("*.onnx"):
        (output / f"{path.name}.data").unlink(missing_ok=True)  # of an earlier export
    for path in sorted(folder.iterdir(), key=lambda path: (path.name == MANIFEST, path.suffix == ".onnx")):
        path.replace(output / path.name)


def parse_graphs(text: str, known: Sequence[GraphKind]) -> tuple[GraphKind, ...]:
    """Return the graphs that a list such as "logits,cached" names.

    Raises:
        UsageProblem: a name is unknown, or there is none.
    """
    names = parts(text)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise UsageProblem(f"--graphs takes some of {', '.join(known)}, separated by commas, not {text!r}.")
    return tuple(kind for kind in known if kind in names)
