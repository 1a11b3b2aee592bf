"""What a manifest keeps of an engine's verification: the verdict, the shapes, the reference and the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from typing_extensions import TypedDict

from trt_workbench.core.documents import Strict

Shapes = Mapping[str, Sequence[int]]
WRONG, UNDECIDED, UNVERIFIED = "wrong", "undecided", "unverified"


class Mark(TypedDict):
    """What records and metrics say of a TensorRT engine's verification.

    Attributes:
        engine: file name of the plan.
        engine_sha256: of the plan.
        verdict: of the engine at the shapes that are used.
        text: the verdict in a line.
        evidence: run directory with the figures; None without one.
        allowed: whether the engine passed only because of --allow-unverified.
    """

    engine: str
    engine_sha256: str
    verdict: str
    text: str
    evidence: str | None
    allowed: bool


class VerifiedShapes(Strict):
    """One set of input shapes that was tried.

    Attributes:
        shapes: by input name.
        verdict: at these shapes.
        inputs_sha256: of the arrays that were given; None where the engine was compared by a command's own inputs.
    """

    shapes: dict[str, tuple[int, ...]]
    verdict: str
    inputs_sha256: str | None = None


class Verification(Strict):
    """A verdict on one engine, and what it is based on.

    Attributes:
        verdict: as in verify.json; "unverified" where `reason` kept it from being verified.
        reason: the first failure, or why it is unverified.
        mode: "quick" and "full" are `verify`'s, "agreement" is eval-llm's or bench's comparison with PyTorch.
        engine_sha256: of the plan; a verdict on other bytes is none.
        model_sha256: of the model of the reference; None without one.
        reference: runtime of the reference; None where only properties were verified.
        precision: the loosest that the engine was granted.
        inputs: sources of the inputs; None where they were drawn with `seed`.
        seed: of inputs and shapes.
        shapes: those that were tried.
        shapes_left: how many more were planned, which the budget did not allow.
        gpu: that the engine ran on.
        tensorrt_version: that executed it.
        driver_version: of the NVIDIA driver.
        workbench_version: that verified it.
        reference_version: of the runtime of the reference.
        verified_at: UTC time in ISO 8601.
        wall_s: how long it took.
        evidence: run directory with the figures; None without one.
    """

    verdict: str
    reason: str = ""
    mode: Literal["quick", "full", "agreement"]
    engine_sha256: str
    model_sha256: str | None = None
    reference: str | None = None
    precision: str | None = None
    inputs: tuple[str, ...] | None = None
    seed: int = 0
    shapes: tuple[VerifiedShapes, ...] = ()
    shapes_left: int = 0
    gpu: str
    tensorrt_version: str
    driver_version: str | None = None
    workbench_version: str
    reference_version: str | None = None
    verified_at: str
    wall_s: float = 0.0
    evidence: str | None = None

    @property
    def text(self) -> str:
        """The verdict in a line, such as "right within fp16 (quick, 4 of 4 shapes compared with ort-cpu, DATE)"."""
        if self.verdict == UNVERIFIED:
            return f"{UNVERIFIED}: {self.reason}"
        tried = sum(one.verdict != UNVERIFIED for one in self.shapes)
        reference = f"compared with {self.reference}" if self.reference else "only properties checked"
        count = f"{tried} of {len(self.shapes) + self.shapes_left} shapes" if self.shapes else ""
        joint = "" if not count else " " if self.reference else ", "
        return f"{self.verdict} ({self.mode}, {count}{joint}{reference}, {self.verified_at[:10]})"

    def covers(self, shapes: Shapes) -> bool:
        """Whether these input shapes were tried, or lie between shapes of a verification that left none out.

        Args:
            shapes: by input name; inputs that are not named count as covered.
        """
        tried = [one.shapes for one in self.shapes if one.verdict != UNVERIFIED]
        if any(all(tuple(shape) == one.get(name) for name, shape in shapes.items()) for one in tried):
            return True
        return not self.shapes_left and all(
            _between(shape, [one[name] for one in tried if name in one]) for name, shape in shapes.items()
        )


def _between(shape: Sequence[int], tried: Sequence[tuple[int, ...]]) -> bool:
    alike = [one for one in tried if len(one) == len(shape)]
    return bool(alike) and all(min(sizes) <= size <= max(sizes) for size, *sizes in zip(shape, *alike, strict=True))
