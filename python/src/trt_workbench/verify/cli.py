"""`trtw verify`: whether an engine computes what its model says, at every batch and shape."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from trt_workbench.backends.preparation import Preparation
from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    OutputOption,
    handled,
    kept_if_interrupted,
    note,
    print_json,
    print_parts,
    print_run,
    say,
)
from trt_workbench.console.drawing import draw
from trt_workbench.console.progress import waiting
from trt_workbench.core.counts import counted, grouped
from trt_workbench.core.errors import CheckFailed, DeviceFailure, UsageProblem
from trt_workbench.core.settings import Setting
from trt_workbench.core.shard import Shard, ShardOption
from trt_workbench.verify.fix_cli import run_fix, shown_fixed
from trt_workbench.verify.settings import VerifySettings

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.core.directory import RunDirectory
    from trt_workbench.verify.bisect import Bisected
    from trt_workbench.verify.opening import VerifyRequest

_SHOWN = 20
Pair = tuple[dict[str, Any], dict[str, Any]]


@handled
def verify(
    settings: VerifySettings,
    *,
    preparation: Preparation,
    bisect: Annotated[bool, Setting("Find the first wrong part of a wrong model.")] = False,
    bisect_seconds: Annotated[
        float, Setting("Seconds that --bisect may take; a later call with the same --output resumes.", min=0)
    ] = 600.0,
    fix: Annotated[bool, Setting("Try workarounds for a wrong engine until one is correct; exit code 0 then.")] = False,
    shard: ShardOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check that an engine computes what its model says, at every batch and shape that it accepts.

    Its outputs are compared with a reference, and must have the properties of every engine: a row of a batch equals
    its own run, other rows and padding do not matter, repeated calls agree. Exit code 1 if anything is wrong or could
    not be proven, 4 if the device failed at a shape.
    """
    from trt_workbench.backends.kept_reference import require_kept
    from trt_workbench.core.directory import run_directory
    from trt_workbench.core.documents import write_json
    from trt_workbench.verify.bisect import bisect as run_bisect
    from trt_workbench.verify.bisect import carry_state, check_bisectable
    from trt_workbench.verify.isolation import check_stack, verified_apart
    from trt_workbench.verify.keeping import keep_found
    from trt_workbench.verify.opening import VerifyRequest, of_model
    from trt_workbench.verify.outcome import run_facts
    from trt_workbench.verify.reproduction import bisected_document, write_bisected
    from trt_workbench.verify.run import RECORDS
    from trt_workbench.verify.run import verify as run_verify

    require_kept(Path(settings.reference), output)
    request = VerifyRequest(**vars(settings), preparation=preparation)
    if bisect:
        check_bisectable(request)
    if settings.stack:
        check_stack(request, fix=fix)
    if fix:
        of_model(request)  # which refuses what --fix could not do
    if shard:
        _one_shard(request, shard, output, alone=bisect or fix, as_json=as_json)
        return
    bisected = tried = None
    with run_directory("verify", output) as run, kept_if_interrupted(run, RECORDS):
        if bisect:
            carry_state(run.destination, run.path)
        earlier = _earlier(run, request)
        # the device of this process stays as it is, whatever a wrong engine does to its own
        if bisect or fix or settings.stack:
            with waiting("Verifying"):
                found = verified_apart(request, run.path, note, earlier)
        else:
            with waiting("Opening") as update:
                found = run_verify(request, run.path, note, lambda label: update(f"Verifying at {label}"), earlier)
        write_json(run.path / "verify.json", found.document)
        directory = run.commit("complete", **run_facts(found.document))
        if bisect and found.failures:  # in its place already, so that what was found out outlives a process
            with waiting("Bisecting") as update:
                bisected = run_bisect(request, found, directory, bisect_seconds, update)
            write_bisected(of_model(request), bisected, directory)
        if found.failures and fix:
            tried = run_fix(request, found, directory, bisected.nodes if bisected else ())
    keep_found(found.document, directory)
    drawing = draw(directory, debug=debug)
    if as_json:
        parts = {"bisect": bisected_document(of_model(request), bisected)} if bisected else {}
        parts |= {"fix": tried.document()} if tried else {}
        print_json({**found.document, **parts, "directory": str(directory)})
    else:
        print_parts(show(found.document, directory))
        print_run(directory)
        print_parts(_bisected(bisected, directory) if bisect else ())
        print_parts(shown_fixed(tried, directory) if tried else ())
    if not (tried and tried.chosen):
        require_right(found.document, directory, " No workaround fixes it." if tried else "")
    drawing.end()


def _one_shard(request: VerifyRequest, shard: Shard, output: Path | None, *, alone: bool, as_json: bool) -> None:
    """Verify at the shapes of a shard, unless that is done already."""
    from trt_workbench.console.shards import run_shard
    from trt_workbench.core.directory import run_directory
    from trt_workbench.verify.run import RECORDS
    from trt_workbench.verify.sharding import COMMAND, check_shard, verify_shard, what_decides

    if alone:
        raise UsageProblem("--bisect and --fix are for a whole run; leave them out with --shard.")
    check_shard(request)

    def tried(folder: Path) -> Path:
        with run_directory(COMMAND, folder) as run, kept_if_interrupted(run, RECORDS):
            earlier = _earlier(run, request, shard)
            with waiting("Opening") as update:
                verify_shard(request, shard, run.path, note, lambda label: update(f"Verifying at {label}"), earlier)
            return run.commit("complete", shard=str(shard))

    run_shard(output, shard, COMMAND, partial(what_decides, request), tried, as_json=as_json)


def _earlier(run: RunDirectory, request: VerifyRequest, shard: Shard | None = None) -> list[Path]:
    """Return the unfinished runs in the place of this one that it goes on with, newest first."""
    from trt_workbench.core.work import continued
    from trt_workbench.verify.run import RECORDS
    from trt_workbench.verify.sharding import WHOLE, what_decides

    return continued(
        run,
        {**what_decides(request), **{name: getattr(request, name) for name in WHOLE}, "shard": shard and str(shard)},
        say,
        RECORDS,
    )


def require_right(document: Mapping[str, Any], directory: Path, tail: str = "") -> None:
    """Raise unless the target is proven right at every shape, and in every other way to run it.

    Args:
        document: what verify.json holds.
        directory: of the run.
        tail: what was tried against a fault.
    """
    from trt_workbench.core.verification import UNDECIDED
    from trt_workbench.verify.outcome import failed_shapes
    from trt_workbench.verify.report import short

    name = Path(document["target"]).name
    if document["failures"]:
        where = f" {document['where']}" if document["where"] else ""
        page = directory / "report.html"
        raise CheckFailed(f"{name} is wrong{where}: {short(document['failures'][0])}.{tail} Full report: {page}")
    if failed := failed_shapes(document):
        raise DeviceFailure(f"{name} is {document['verdict']} except at {'; '.join(failed)}")
    if unproven := document["unproven"]:
        more = f" (and {len(unproven) - 1} more)" if len(unproven) > 1 else ""
        way_failed = any(way.get("device_failed") for way in document["ways"])
        undecided = any(row["verdict"] == UNDECIDED for case in document["cases"] for row in case["outputs"])
        hint = "" if way_failed or not undecided else "; your own inputs (--inputs) may decide it"
        raise (DeviceFailure if way_failed else CheckFailed)(
            f"{name} is not proven correct: {unproven[0].rstrip('.')}{more}. No output is known to be wrong{hint}. "
            f"Full report: {directory / 'report.html'}"
        )


def show(document: Mapping[str, Any], _directory: Path) -> Parts:
    """Return what people see of a run."""
    from trt_workbench.verify.report import headline, outputs, sentence
    from trt_workbench.verify.verdict import in_words, spans

    rows = [(case, row) for case in document["cases"] for row in case["outputs"] or [{}]]
    shown = [pair for pair in rows if pair[1].get("verdict") == "wrong"] or _worst_of_each(rows)
    more, unverified, left = len(shown) - _SHOWN, document["cases_unverified"], document["cases_left"]
    tried = "; ".join(f"{name} {spans(sizes)}" for name, sizes in document["sizes"].items())
    again = f" (--seed {document['sizes_seed']} repeats them)" if document["sizes_seed"] else ""
    whole = "; ".join(f"{name} {in_words(one)}" for name, one in document["whole_numbers"].items())
    return [
        headline(document),
        outputs(document["precision"], shown[:_SHOWN]),
        f"verify.json has {counted(more, 'more row')}." if more > 0 else "",
        f"Not verified: {counted(unverified, 'shape')} that could not be run." if unverified else "",
        f"Not tried: {counted(left, 'shape')}, as the time limit or a fault ended the run." if left else "",
        f"Sizes tried: {tried}{again}." if tried else "",
        f"Whole numbers tried: {whole}." if whole else "",
        *map(sentence, document["remarks"]),
        *(f"Not verified: {way['way']}: {way['reason']}" for way in document["ways"] if way["reason"]),
    ]


def _bisected(found: Bisected | None, directory: Path) -> Parts:
    if found is None:
        return ["Nothing is wrong: there is nothing to bisect."]
    if not found.nodes:
        return [f"Bisection found no wrong part{f' at {found.case}' if found.case else ''}: {found.reason}."]
    left = "" if found.complete else "; time limit reached, run again with the same --output to continue"
    nodes = ", ".join(f"{operator} {name}" for operator, name in zip(found.operators, found.nodes, strict=True))
    return [
        f"Bisected at {found.case} in {counted(found.trials, 'trial')}, {found.seconds:.0f} s{left}:",
        f"  smallest {'crashing' if found.crash else 'wrong'} part: {nodes}",
        f"  {found.crash}" if found.crash else f"  first wrong tensor: {found.first_wrong}",
        f"  reproduce: python {directory / 'bisect' / 'reproduce.py'}; bug report: report.md next to it",
    ]


def _worst_of_each(rows: list[Pair]) -> list[Pair]:
    """Return of every shape and output the inputs with the largest difference."""
    alike = grouped(rows, lambda pair: (pair[0]["label"], pair[1].get("output", "")))
    return [
        max(mine, key=lambda pair: (pair[1].get("difference") or {}).get("rel_l2") or 0.0) for mine in alike.values()
    ]
