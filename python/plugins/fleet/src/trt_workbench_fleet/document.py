"""RUN.yaml: what is to be run in shards, what nodes must be like, and how each scheduler is asked."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveFloat, PositiveInt, WithJsonSchema, model_validator

from trt_workbench.core.documents import Strict
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.workers import run_to_end
from trt_workbench.core.workspace import EMBEDDED_MODELS
from trt_workbench.core.yaml_settings import load_yaml_settings

_SHELL_S = 60.0


def _form(pattern: str, words: str, *kinds: type) -> BeforeValidator:
    """Return the check that a text, or what YAML made of one, has a form, which `words` describe."""

    def check(value: object) -> str:
        if not isinstance(value, (str, *kinds)) or not re.fullmatch(pattern, str(value), re.ASCII):
            raise ValueError(f"it must be {words}")
        return str(value)

    return BeforeValidator(
        check,
        json_schema_input_type=Annotated[
            str, WithJsonSchema({"type": ["string", *("number" for _ in kinds[:1])], "pattern": f"^({pattern})$"})
        ],
    )


# A label of DNS, as Kubernetes wants names to be, short enough for a GPU type behind it.
JobName = Annotated[str, _form("[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", "1 to 40 small letters, digits and inner hyphens")]
TypeName = Annotated[
    str, _form("[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?", "1 to 20 small letters, digits and inner hyphens")
]
# Within a line of a script: no blank, no quote, no end of the line.
Word = Annotated[str, _form(r"[A-Za-z0-9][A-Za-z0-9._:/=,@+&|!*()\[\]-]*", "one word without blanks and quotes")]
# One line of a shell, of YAML's comments and of a table.
Line = Annotated[str, _form(r"[^\0-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]+", "one line without control characters")]
# No script holds NUL.
Text = Annotated[str, _form(r"[^\0]+", "a text without NUL that is not empty")]
# By its API's reference, "Quantity", and what its API server checks in names of resources.
Quantity = Annotated[
    str,
    _form(r"(\d+\.?\d*|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?", "a quantity, such as 4, 500m or 16Gi", int, float),
]
Resource = Annotated[
    str,
    _form(
        r"([a-z0-9.-]+/[\w.-]{1,63}|cpu|memory|ephemeral-storage|hugepages-\w+)",
        "a resource, such as cpu or nvidia.com/gpu",
    ),
]
Image = Annotated[
    str,
    _form(r"[\w.-]+(:\d+)?(/[\w.-]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?", "an image, such as registry.example/trtw:1"),
]
# As `man sbatch` has them.
Minutes = Annotated[
    str, _form(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|UNLIMITED", 'a time in quotes, such as "90" (minutes) or "01:30:00"')
]
Megabytes = Annotated[str, _form(r"\d+[KMGTkmgt]?", "a size, such as 32G or 500M", int)]
# A path as it can stand in any line of any script.
_PLAIN = re.compile(r"[\w./+@=,-]+")
# Options that each task gets from its job.
_OURS = ("--shard", "--output", "-o", "--json", "--gpus")


class NodeChecks(Strict):
    """What a node must have before a task begins.

    Attributes:
        packages: exact versions by name; that of trt-workbench is always checked.
        tensorrt: exact version of its library.
        driver: exact version of NVIDIA's driver.
        free_gb: room in the shared folder.
    """

    packages: dict[Text, Text] = {}
    tensorrt: Text | None = None
    driver: Text | None = None
    free_gb: Annotated[float, Field(ge=0)] = 1.0


class SlurmSettings(Strict):
    """Options of `sbatch`; those of None are left to the cluster.

    Attributes:
        partition: `--partition`.
        account: `--account`.
        qos: `--qos`.
        time: `--time`, most time of a task: in quotes, such as "90" (minutes) or "01:30:00".
        cpus: `--cpus-per-task`.
        memory: `--mem` of a task, such as 32G.
        constraint: `--constraint`, features that a node must have.
        at_once: tasks that run at one time; None for all.
    """

    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    time: Minutes | None = None
    cpus: PositiveInt | None = None
    memory: Megabytes | None = None
    constraint: Word | None = None
    at_once: PositiveInt | None = None


class KubernetesSettings(Strict):
    """The Indexed Job.

    Attributes:
        image: of the container, with trtw in it.
        namespace: of the job.
        queue: Kueue's LocalQueue; None for a cluster without Kueue.
        claim: PersistentVolumeClaim with the shared folder, which tasks find at the path that it has here.
        mount: where the claim is mounted; by default at the folder itself.
        cpu: of a task.
        memory: of a task.
        whole_node: all resources of one node, such as {nvidia.com/gpu: "8", cpu: "120"}, for a task that has its node
            alone.
        at_once: pods that run at one time; None for all.
    """

    image: Image
    namespace: JobName = "default"
    queue: JobName | None = None
    claim: JobName
    mount: Path | None = None
    cpu: Quantity = "4"
    memory: Quantity = "16Gi"
    whole_node: dict[Resource, Quantity] = {}
    at_once: PositiveInt | None = None


class RaySettings(Strict):
    """The Ray cluster.

    Attributes:
        address: of its head; by default what $RAY_ADDRESS says.
        cpus: of a task.
        node_token: name of a custom resource of which every node has one, for tasks that have their node alone.
    """

    address: Word | None = None
    cpus: PositiveFloat = 1.0
    node_token: TypeName = "trtw-node"


class LocalSettings(Strict):
    """This machine.

    Attributes:
        at_once: shards that run at one time.
    """

    at_once: PositiveInt = 1


class RunFile(Strict):
    """RUN.yaml.

    Attributes:
        schema_version: of the file, 1.
        name: of the job: small letters, digits and hyphens.
        command: that is run in shards.
        model: its first argument, a path or the name of an embedded model, of bench the configuration's file; None for
            the command's own default.
        copy_model: copy the model into the folder under its hash; else every node sees it at its path.
        model_sha256: what the model must be; filled in when the job is written.
        arguments: all others, as on the command line.
        shards: how many.
        folder: where the shards and the result go, at the same path on every node.
        program: how a node starts trtw.
        setup: lines of shell that come first, such as `source /shared/venv/bin/activate`.
        alone: give each task its node alone, as measurements need.
        gpu_types: names of GPUs as the driver has them, by the name that schedulers know; without any, no GPU is asked.
        checks: what a node must have.
        slurm: options of `sbatch`.
        kubernetes: the Indexed Job; `--to kubernetes` needs it.
        ray: the Ray cluster.
        local: shards on this machine.
    """

    schema_version: Literal[1] = 1
    name: JobName
    command: Literal["bench", "eval-coco", "eval-llm", "eval-stream", "eval-vision", "verify"]
    model: Text | None = None
    copy_model: bool = False
    model_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    arguments: tuple[Text, ...] = ()
    shards: Annotated[int, Field(ge=1, le=10_000)]
    folder: Path
    program: Annotated[tuple[Line, ...], Field(min_length=1)] = ("trtw",)
    setup: tuple[Line, ...] = ()
    alone: bool = False
    gpu_types: dict[TypeName, Line] = {}
    checks: NodeChecks = NodeChecks()
    slurm: SlurmSettings = SlurmSettings()
    kubernetes: KubernetesSettings | None = None
    ray: RaySettings = RaySettings()
    local: LocalSettings = LocalSettings()

    @model_validator(mode="after")
    def _consistent(self) -> RunFile:
        given = [one for one in self.arguments if one.split("=")[0] in _OURS]
        if given:
            raise ValueError(f"arguments has {given[0]}, which every task gets from its job")
        if self.model is None and (self.copy_model or self.model_sha256):
            raise ValueError("copy_model and model_sha256 need a model")
        if self.command == "verify" and self.is_embedded:
            raise ValueError("verify needs the path of a model or plan")
        if self.command == "bench" and not (self.alone and self.local.at_once == 1):
            raise ValueError("bench measures, so it needs `alone: true`, and one shard at a time on this machine")
        return self

    @property
    def is_embedded(self) -> bool:
        """Whether the model comes with the workbench, so that every node has it."""
        return self.model is None or self.model in EMBEDDED_MODELS


def load_run_file(file: Path) -> RunFile:
    """Read and check RUN.yaml; relative paths become relative to its folder.

    Raises:
        UsageProblem: it is absent or no YAML, or a setting is unknown or wrong; the message names the line. Or `setup`
            is not shell.
    """
    found = load_yaml_settings(RunFile, file, noun="run settings")
    base = file.absolute().parent
    folder = base / found.folder
    model = found.model if found.is_embedded else str(base / str(found.model))
    if not _PLAIN.fullmatch(str(folder)):
        raise UsageProblem(f"The folder's path holds characters that scripts for schedulers do not take: {folder}")
    if found.setup and shutil.which("bash"):
        ended = run_to_end(["bash", "-n", "-c", "\n".join(found.setup)], _SHELL_S)
        if ended.code:
            raise UsageProblem(f"The lines of setup are not shell ({' '.join(ended.stderr.split())}): {file}")
    return found.model_copy(update={"folder": folder, "model": model})
