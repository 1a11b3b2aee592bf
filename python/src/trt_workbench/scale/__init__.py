"""`merge`: shards of a command, which ran anywhere, become the run that one process would have made.

In: run directories with a `shard.json` (`core/shard_files.py`). Out: the run directory of their command.

A feature's own `merge_shards` does the work, by the code that scores one process's results.
"""
