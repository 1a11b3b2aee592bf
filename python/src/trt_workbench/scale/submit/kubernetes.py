"""Kubernetes: an Indexed Job, by `kubectl`, in the queue of Kueue if one is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.scale.submit.array import JobArray
from trt_workbench.scale.submit.document import KubernetesSettings
from trt_workbench.scale.submit.scheduler import Watch, ask, no_such_gpu, poll, render, require_tool

JOB = "job.yaml"
_GPU, _PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"


class Kubernetes:
    """A cluster that `kubectl` reaches."""

    def files(self, array: JobArray) -> dict[str, str]:
        """Return the manifest."""
        settings = _settings(array)
        gpu = {_GPU: "1"} if array.gpu_type else {}
        return {
            JOB: render(
                "job.yaml.j2",
                array=array,
                settings=settings,
                mount=str(settings.mount or array.base),
                resources=settings.whole_node
                if array.run.alone
                else {"cpu": settings.cpu, "memory": settings.memory, **gpu},
                gpu_label=_label(array),
            )
        }

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
    settings = array.run.kubernetes
    if settings is None:
        raise UsageProblem("--to kubernetes needs `kubernetes` in RUN.yaml, with `image` and `claim`.")
    if array.run.alone and not settings.whole_node:
        raise UsageProblem(
            "A run that has its node alone needs kubernetes.whole_node, all resources of one node, such as "
            '{nvidia.com/gpu: "8", cpu: "120"}.'
        )
    return settings


def _label(array: JobArray) -> str | None:
    """Return the value of the label that GPU feature discovery makes of a card's name."""
    return array.run.gpu_types[array.gpu_type].replace(" ", "-") if array.gpu_type else None


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
