"""The plug-in `fleet`, `submit`: the shards of a run as a job of a scheduler that is there already.

In: RUN.yaml (`document.py`). Out: files that the scheduler takes, and with --run the merged run.

    RUN.yaml ─► an array a GPU type ─► a script, manifest or program ─► scheduler ─► shards in the folder ─► merge

`slurm.py`, `kubernetes.py`, `ray.py` and `local.py` write the files and hand them over. What runs where and when is up
to the scheduler. `node.py` is what every task does first.
"""
