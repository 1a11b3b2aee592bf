"""Kubernetes: an Indexed Job, by `kubectl`, in the queue of Kueue if one is named."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

import yaml

from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench_fleet.array import JobArray
from trt_workbench_fleet.document import KubernetesSettings
from trt_workbench_fleet.scheduler import Watch, ask, no_such_gpu, poll, render, require_tool

JOB = "job.yaml"
_GPU, _PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"
_OURS = {"app.kubernetes.io/name": "trt-workbench"}
# Exit codes 1 to 3 are answers that would be the same again; a pod that was evicted does not count.
_FAILURES = [
    {"action": "FailIndex", "onExitCodes": {"containerName": "shard", "operator": "In", "values": [1, 2, 3]}},
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
]
_LONGEST = 63  # name of a host, value of a label


class _Dumper(yaml.SafeDumper):
    """Quotes every text that another reader of YAML may take for a number or a truth value; a script stays readable."""


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None if re.fullmatch("[A-Za-z][A-Za-z./-]+", text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent)


class Kubernetes:
    """A cluster that `kubectl` reaches."""

    def files(self, array: JobArray) -> dict[str, str]:
        """Return the manifest."""
        job = _job(array, _settings(array))
        text = render("job.yaml.j2", array=array, job=yaml.dump(job, Dumper=_Dumper, sort_keys=False, width=120))
        assert yaml.safe_load(text) == job, "the manifest is not the one that is read back"
        return {JOB: text}

    def how(self, array: JobArray) -> list[str]:
        """Return the commands that run it."""
        return [f"kubectl apply -f {array.folder / JOB}"]

    def require(self, array: JobArray) -> None:
        """Check that kubectl is here and the cluster answers, and that a node has the GPU type."""
        _settings(array)
        require_tool("kubectl", "Kubernetes", "where it is set up for the cluster")
        nodes = json.loads(ask(["kubectl", "get", "nodes", "-o", "json"], "kubectl"))["items"]
        known = sorted({one["metadata"].get("labels", {}).get(_PRODUCT) for one in nodes} - {None})
        if array.gpu_type and _label(array) not in known:
            raise no_such_gpu(f"with the label {_PRODUCT}={_label(array)}", known)

    def run(self, array: JobArray, indices: Sequence[int], watch: Watch) -> None:  # noqa: ARG002 - the job is whole
        """Start the job, unless it runs already, and wait. Tasks of shards that are done end at once."""
        name, settings = array.name, _settings(array)
        if _is_over(name, settings):
            _ask(settings, "delete", "job", name, "--ignore-not-found", "--wait")
            _ask(settings, "apply", "-f", str(array.folder / JOB))
        again = f"The same command waits for it again; `kubectl delete job {name}` ends it."
        poll(lambda: _is_over(name, settings), watch, again)


def _settings(array: JobArray) -> KubernetesSettings:
    settings, last = array.run.kubernetes, f"{array.name}-{array.run.shards - 1}"
    if settings is None:
        raise UsageProblem("--to kubernetes needs `kubernetes` in RUN.yaml, with `image` and `claim`.")
    if array.run.alone and not settings.whole_node:
        raise UsageProblem(
            "A run that has its node alone needs kubernetes.whole_node, all resources of one node, such as "
            '{nvidia.com/gpu: "8", cpu: "120"}.'
        )
    if len(last) > _LONGEST:
        raise UsageProblem(f"Kubernetes names the pods up to {last}, of {_LONGEST} letters at most; shorten `name`.")
    if settings.mount and not array.base.is_relative_to(settings.mount):
        raise UsageProblem(f"kubernetes.mount does not contain `folder`, which tasks would not find: {settings.mount}")
    return settings


def _job(array: JobArray, settings: KubernetesSettings) -> dict[str, Any]:
    """Return the Indexed Job: one pod a shard, by whose number `--shard auto` goes."""
    gpu = {_GPU: "1"} if array.gpu_type else {}
    resources = settings.whole_node if array.run.alone else {"cpu": settings.cpu, "memory": settings.memory, **gpu}
    script = [
        *array.run.setup,
        "# Versions, GPU, driver, model and room on this node, before any work.",
        shlex.join(array.check),
        f"exec {shlex.join(array.work)} \\",
        f'  --shard auto --output {shlex.quote(str(array.folder))}/"shard-$JOB_COMPLETION_INDEX"',
    ]
    container = {
        "name": "shard",
        "image": settings.image,
        "env": [{"name": "JOB_COMPLETIONS", "value": str(array.run.shards)}],
        "command": ["/bin/bash", "-euc"],
        # Kubernetes reads `$$` as `$` and `$(NAME)` as a variable in command and args
        "args": [re.sub(r"\$(?=[$(])", "$$", "\n".join(script) + "\n")],
        "resources": {"requests": dict(resources), "limits": dict(resources)},
        "volumeMounts": [{"name": "shared", "mountPath": str(settings.mount or array.base)}],
    }
    pod = {
        "restartPolicy": "Never",
        **({"nodeSelector": {_PRODUCT: _label(array)}} if array.gpu_type else {}),
        "containers": [container],
        "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": settings.claim}}],
    }
    queue = {"kueue.x-k8s.io/queue-name": settings.queue} if settings.queue else {}
    spec = {
        **({"suspend": True} if queue else {}),
        "completionMode": "Indexed",
        "completions": array.run.shards,
        "parallelism": settings.at_once or array.run.shards,
        "backoffLimitPerIndex": 2,
        "podFailurePolicy": {"rules": _FAILURES},
        "template": {"metadata": {"labels": dict(_OURS)}, "spec": pod},
    }
    metadata = {"name": array.name, "namespace": settings.namespace, "labels": _OURS | queue}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _label(array: JobArray) -> str:
    """Return the value of the label that GPU feature discovery makes of a card's name; it leaves signs out."""
    name = array.run.gpu_types[str(array.gpu_type)]
    label = "-".join(re.sub("[^A-Za-z0-9_. -]", "", name).split())
    if len(label) > _LONGEST or not re.fullmatch("[A-Za-z0-9](.*[A-Za-z0-9])?", label):
        raise UsageProblem(f"The name of the GPU type {array.gpu_type} cannot be a label of Kubernetes: {name}")
    return label


def _is_over(name: str, settings: KubernetesSettings) -> bool:
    """Whether a job is absent, complete or failed."""
    try:
        job: dict[str, Any] = json.loads(_ask(settings, "get", "job", name, "-o", "json"))
    except ComponentMissing as error:
        if "NotFound" in str(error) or "not found" in str(error):
            return True
        raise
    conditions = job.get("status", {}).get("conditions") or []
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)


def _ask(settings: KubernetesSettings, *words: str) -> str:
    return ask(["kubectl", "-n", settings.namespace, *words], "kubectl")
