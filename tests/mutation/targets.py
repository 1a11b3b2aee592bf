"""What is mutated, which tests have to notice, and which mutants nobody can notice."""

# ruff: noqa: E501 - lines of other files, as they are

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """A module.

    Attributes:
        path: of the module.
        tests: the files that cover it, the quickest to notice first.
        parts: names of the functions, methods and classes that are mutated; the whole module if there are none.
        equivalent: changes `old => new` after which the module does the same, and why.
    """

    path: str
    tests: tuple[str, ...]
    parts: tuple[str, ...] = ()
    equivalent: dict[str, str] = field(default_factory=dict)


TARGETS = {
    "statistics": Target(
        "python/src/trt_workbench/core/statistics/summary.py", ("tests/unit/core/test_statistics.py",)
    ),
    "rank_tests": Target(
        "python/src/trt_workbench/core/statistics/rank_tests.py", ("tests/unit/core/test_rank_tests.py",)
    ),
    "comparison": Target(
        "python/src/trt_workbench/core/statistics/comparison.py", ("tests/unit/core/test_comparison.py",)
    ),
    "stability": Target(
        "python/src/trt_workbench/backends/measure/stability.py", ("tests/unit/backends/measure/test_stability.py",)
    ),
    "telemetry": Target(
        "python/src/trt_workbench/backends/measure/telemetry.py",
        ("tests/unit/backends/measure/test_telemetry.py", "tests/unit/backends/measure/test_stability.py"),
    ),
    "contention": Target(
        "python/src/trt_workbench/backends/measure/telemetry.py", ("tests/unit/backends/measure/test_contention.py",)
    ),
    "cache": Target(
        "python/src/trt_workbench/engine/cache.py",
        ("tests/unit/engine/test_cache.py",),
        equivalent={
            'text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False) => text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=None)': "None is as false",
            'staging = engines / f".{key}.staging.{secrets.token_hex(4)}" => staging = engines / f".{key}.staging.{secrets.token_hex( 3)}"': "any random name",
            'staging = engines / f".{key}.staging.{secrets.token_hex(4)}" => staging = engines / f".{key}.staging.{secrets.token_hex( 5)}"': "any random name",
            "lock.release() => pass": "the lock is released when its object goes, at the same place",
        },
    ),
    "cache key": Target(
        "python/src/trt_workbench/engine/builder.py", ("tests/unit/engine/test_builder.py",), ("prepare_build",)
    ),
    "task fingerprint": Target(
        "tasks/taskrunner.py",
        ("tests/unit/tasks/test_taskrunner.py",),
        ("pip_calls", "is_covered", "constraints_file", "ensure"),
    ),
    "saturation": Target(
        "python/src/trt_workbench/bench/run.py",
        ("tests/unit/bench/test_run.py",),
        ("_run_all", "_count_throughput", "_is_saturated"),
    ),
    "yardstick": Target(
        "python/src/trt_workbench/verify/yardstick.py",
        ("tests/unit/verify/test_yardstick.py", "tests/unit/verify/test_limits.py"),
    ),
    "compare": Target(
        "python/src/trt_workbench/core/compare.py",
        ("tests/unit/core/test_compare.py", "tests/unit/core/test_elements.py"),
        equivalent=dict.fromkeys(
            (
                "a, b = found.reshape(count, -1), expected.reshape(count, -1) => a, b = found.reshape(count, - 2), expected.reshape(count, -1)",
                "a, b = found.reshape(count, -1), expected.reshape(count, -1) => a, b = found.reshape(count, -1), expected.reshape(count, - 2)",
            ),
            "numpy takes any negative length for the rest",
        ),
    ),
    "elements": Target(
        "python/src/trt_workbench/core/elements.py",
        ("tests/unit/core/test_elements.py", "tests/unit/core/test_compare.py"),
    ),
    "matching": Target(
        "python/src/trt_workbench/core/compare.py",
        ("tests/unit/core/test_compare.py",),
        equivalent=dict.fromkeys(
            (
                "a = np.nan_to_num(found[row].astype(np.float64)).reshape(length, -1) => a = np.nan_to_num(found[row].astype(np.float64)).reshape(length, - 2)",
                "a = np.nan_to_num(found[row].astype(np.float64)).reshape(length, -1) => a = np.nan_to_num(found[row].astype(np.float64)).reshape(length, ~1)",
                "b = np.nan_to_num(expected[row].astype(np.float64)).reshape(length, -1) => b = np.nan_to_num(expected[row].astype(np.float64)).reshape(length, - 2)",
            ),
            "numpy takes any negative length for the rest",
        ),
    ),
    "tolerance": Target("python/src/trt_workbench/core/tolerance.py", ("tests/unit/core/test_tolerance.py",)),
}
