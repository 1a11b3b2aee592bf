"""`build-engine`: from an ONNX model to a TensorRT engine in the cache, with its manifest."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trt_workbench.backends.preparation import AS_THE_MODEL_SAYS, Preparation
from trt_workbench.console.common import (
    DebugOption,
    JsonOption,
    handled,
    note,
    print_found,
    say,
    single_command_app,
    stderr_console,
)
from trt_workbench.console.options import Given, spelled
from trt_workbench.console.progress import waiting
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.settings import Keep
from trt_workbench.engine.build_options import BuildOptions, CalibrationOptions, MaxBatch
from trt_workbench.report.tables import Column, Table

if TYPE_CHECKING:
    from trt_workbench.console.common import Parts
    from trt_workbench.core.builds import BuiltGroup
    from trt_workbench.core.verification import Verification
    from trt_workbench.engine.builder import BuiltEngine, PreparedBuild
    from trt_workbench.engine.options import BuildSettings
    from trt_workbench.model.opened import Model


Verify = Literal["quick", "full", "fix", "off"]


@handled
def build_engine(
    model: Annotated[Path, typer.Argument(help="ONNX file, with its external data next to it.")],
    *,
    plan: Annotated[
        Path | None, typer.Option("--plan", "-o", help="Also write the plan here, with its manifest next to it.")
    ] = None,
    asked: Annotated[dict[str, Any], Given(BuildOptions)],
    max_batch: MaxBatch = None,
    calibration: Annotated[dict[str, Any], Given(CalibrationOptions, "calibration_")],
    preparation: Preparation,
    verify: Annotated[
        Verify,
        typer.Option(
            help="How much of the engine to verify against the model on ort-cpu; fix: also build a workaround."
        ),
    ] = "quick",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be built and its cache key; build nothing.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="YAML file with build settings; options on the command line take precedence.")
    ] = None,
    builds: Annotated[
        int | None,
        typer.Option(min=2, help="Build it this often, each from an empty timing cache; show the spread, keep one."),
    ] = None,
    keep: Annotated[
        Keep | None, typer.Option(help="Which of several builds is kept, by latency; median by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Build even if the cache holds this engine.")] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0.001, max=1e6, help="Time limit of TensorRT's build in seconds; past it, the exit code is 1."
        ),
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Build a TensorRT engine from an ONNX model.

    An engine that the cache already has for the same request is not built again.
    """
    from trt_workbench.engine.builder import prepare_build
    from trt_workbench.engine.manifest import check_destination
    from trt_workbench.model.opened import Model
    from trt_workbench.vision import calibration_images

    if keep and builds is None:
        raise UsageProblem("--keep chooses one of several builds; pass --builds, too.")
    opened = Model.open(model)
    settings = with_batch_profile(opened, _settings(config, asked, calibration), max_batch)
    data = settings.calibration
    images = calibration_images(opened, data.data, preparation) if data else None
    if preparation != AS_THE_MODEL_SAYS and images is None:
        named = next(name for name, value in vars(preparation).items() if value != getattr(AS_THE_MODEL_SAYS, name))
        raise UsageProblem(
            f"--{named.replace('_', '-')} decides how calibration images are prepared; pass a folder of them "
            "with --calibration."
        )
    prepared = prepare_build(opened, settings, images)
    if plan is not None:
        cache = prepared.settings.timing_cache
        check_destination(plan, [*prepared.model.files, *([cache] if cache else [])])
    if dry_run:
        _show_request(prepared, as_json=as_json)
        return
    make = partial(_build, force=force, time_limit_s=time_limit)
    group: BuiltGroup | None = None
    if builds is None:
        engine = make(prepared)
    else:
        from trt_workbench.build_engine.several import SeveralBuilds
        from trt_workbench.console.builds import same_command

        check = partial(_verify, model=model, verify=verify, device=settings.device)
        again = same_command(force=force)
        engine, group = SeveralBuilds(builds, keep or "median", make, check, say, again).make(prepared)
    for text in images.notes() if images else ():
        note(text)
    where = engine.path
    if plan is not None:
        from trt_workbench.engine.builder import export

        export(engine.plan, plan)
        where = plan
    engine = replace(engine, plan=engine.plan.let_go())  # verifying it reads what was written
    from trt_workbench.core.verification import WRONG

    verdict = _verify(where, model, verify, settings.device)
    if verify == "fix" and verdict and verdict.verdict == WRONG:
        from trt_workbench.verify import fix_build

        where, verdict = fix_build(verdict, where, model, plan, device=settings.device), None
    _show_engine(engine, where, group, as_json=as_json)
    if verdict:
        _require_right(verdict, where, model, debug=debug)


def _settings(config: Path | None, asked: dict[str, Any], calibration: dict[str, Any]) -> BuildSettings:
    from trt_workbench.engine.options import load_settings

    if calibration and "data" not in calibration:
        raise UsageProblem(f"--calibration-{next(iter(calibration))} needs --calibration.")
    given = {**asked, "calibration": calibration} if calibration else asked
    return load_settings(config, given, {**spelled(BuildOptions), "calibration": "--calibration"}.__getitem__)


def with_batch_profile(model: Model, settings: BuildSettings, max_batch: int | None) -> BuildSettings:
    """Return `settings` with a profile for batches of 1 to `max_batch`, where that is asked for.

    Raises:
        UsageProblem: profiles are given as well, or more than the batch is dynamic, or nothing is.
    """
    if max_batch is None:
        return settings
    from trt_workbench.engine.profiles import batch_profile

    if settings.profiles:
        raise UsageProblem("Give either --max-batch or profiles, not both.")
    made = batch_profile([(tensor.name, tensor.shape) for tensor in model.facts.inputs], max_batch)
    if made is None:
        raise UsageProblem(
            "--max-batch is for models with only a dynamic batch; set the range of each input with --profile: "
            f"{model.path}"
        )
    return settings.model_copy(update={"profiles": (made,)})


def _build(prepared: PreparedBuild, *, force: bool, time_limit_s: float | None) -> BuiltEngine:
    from trt_workbench.build_engine.progress import build_progress
    from trt_workbench.engine.builder import build

    with build_progress(stderr_console()) as progress:
        return build(prepared, force=force, progress=progress, note=note, time_limit_s=time_limit_s)


def _verify(plan: Path, model: Path, verify: Verify, device: int) -> Verification | None:
    if verify == "off":
        return None
    from trt_workbench.verify import PlanRequest, verdict_of_build

    request = PlanRequest(plan, model, "full" if verify == "full" else "quick", device=device)
    with waiting("Verifying") as update:
        return verdict_of_build(request, note, lambda label: update(f"Verifying at {label}"))


def _require_right(found: Verification, plan: Path, model: Path, *, debug: bool) -> None:
    """Raise CheckFailed for an engine that is wrong, with the page of what was found."""
    from trt_workbench.core.errors import CheckFailed
    from trt_workbench.core.verification import WRONG

    if found.verdict != WRONG:
        return
    page = ""
    if found.evidence and (directory := Path(found.evidence)).is_dir():
        from trt_workbench.console.drawing import draw

        draw(directory, debug=debug)
        page = f" Full report: {directory / 'report.html'}."
    again = shlex.join(["verify", str(plan), "--model", str(model)])
    raise CheckFailed(
        f"The engine is wrong: {found.reason}. It is kept, and its manifest says so. Find the first wrong layer with "
        f"`trtw {again} --bisect`, and a workaround with `trtw {again} --fix`.{page} {plan}"
    )


def _show_request(prepared: PreparedBuild, *, as_json: bool) -> None:
    from trt_workbench.engine.describe import request_document

    print_found(request_document(prepared), _request, as_json=as_json)


def _request(document: dict[str, Any]) -> Parts:
    import json

    optional = ("calibration_sha256", "plugins_sha256")
    rows = [
        (name, str(value or ("-" if name in optional else "unknown here"))) for name, value in document["key"].items()
    ]
    # the rest is left to TensorRT
    rows += [(name, json.dumps(one)) for name, one in document["options"].items() if one not in (None, False, [], {})]
    table = Table(("part of the cache key", Column("value", "1", long=True)), rows, "What would be built")
    return [table, *document["missing"], document["conclusion"]]


def _show_engine(engine: BuiltEngine, where: Path, group: BuiltGroup | None, *, as_json: bool) -> None:
    from trt_workbench.console.builds import shown_builds
    from trt_workbench.core.documents import json_values
    from trt_workbench.engine.manifest import manifest_path, read_manifest
    from trt_workbench.inspect import shown_manifest

    current = read_manifest(where) or engine.manifest  # with the verdict
    document = {"schema_version": 1, "plan": str(where), "manifest_path": str(manifest_path(where))}
    document |= {"built": engine.built, "notes": list(engine.notes), "manifest": json_values(current)}
    document |= {"several": json_values(group)} if group else {}
    state = f"Built in {engine.manifest.build_s:.1f} s" if engine.built else "From the cache"
    builds = [group] if group else []
    print_found(
        document, lambda _: [*shown_builds(builds), *shown_manifest(current), f"{state}: {where}"], as_json=as_json
    )


def main() -> None:
    """Run `build-engine`."""
    single_command_app(build_engine)()
