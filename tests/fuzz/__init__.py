"""A fuzzer of the commands: real files of every kind, mutated; what a command answers is held to what it promises.

    pixi run fuzz 5000 --seed 1         or: python -m tests.fuzz 5000 --seed 1

Each input is made from a seed and its number alone, so it can be made again. A command runs in a forked process of its
own, with limits on time and memory, in a folder of its own. It has to end by itself with one of the exit codes 0 to 4,
without a traceback, without control characters on stderr, without a file outside the folders that it was given, and
with nothing left in TMPDIR. Some inputs get strange variables or a strange current folder (surroundings.py); some are
sound and get a signal at a random time: the exit code says so, or the work was complete.
Inputs that fail are kept with what was said, beside `summary.json`; each becomes a test. The normal suite runs a few
(tests/cli/test_fuzz.py).
"""
