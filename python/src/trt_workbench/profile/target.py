"""The process that a profiler records: `python -m trt_workbench.profile.target REQUEST.json`.

It loads the model, runs it to warm up, and runs it again between cudaProfilerStart and -Stop.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import WorkbenchError, error_document
from trt_workbench.engine import native
from trt_workbench.profile.workload import Workload, open_session, random_feed


def run(work: Workload) -> None:
    """Run a workload, the timed region bounded for a profiler.

    Raises:
        WorkbenchError: the model cannot be loaded or run, or the core lacks CUDA.
    """
    with open_session(work) as session:
        inputs = random_feed(session, work)
        for _ in range(max(1, work.warmup)):
            session.run(inputs)
        with native.translated():
            native.require("profiler_start")()
            for _ in range(work.iterations):
                session.run(inputs)
            native.require("profiler_stop")()


def main() -> int:
    """Run the workload that the argument names; what fails is written where the request says."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    failure = Path(request.pop("failure"))
    try:
        run(Workload.model_validate(request))
    except WorkbenchError as error:
        write_json(failure, error_document(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
