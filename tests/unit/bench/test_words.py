"""What a bench report says in words and lists, and what each runtime costs."""

import pytest
from tests.records import record, repetitions, run_of
from tests.texts import held

from trt_workbench.bench.cli import shown
from trt_workbench.bench.view import tables
from trt_workbench.bench.words import executed, leaders, machine, overall, problems, summary, unstable
from trt_workbench.console.common import print_parts
from trt_workbench.core.artefacts import Cpu, Driver, Environment, Gpu

SEEN = {"sm_clock_min_mhz": 1700, "sm_clock_max_mhz": 1980, "temperature_max_c": 61, "power_mean_w": 140.0}
MEMORY = {"device_memory_bytes": 2**30, "host_memory_bytes": 2**20, "seconds": 0.5}


def test_the_winner_comes_first_and_what_failed_is_said() -> None:
    records = [
        *(one for work in ("m b1", "m b2") for one in repetitions("fast", 1.0, work)),
        *(one for work in ("m b1", "m b2") for one in repetitions("slow", 2.0, work)),
        *repetitions("fast", 1.0, "m b4"),
        *repetitions("like", 1.0, "m b4"),
        *(record("broken", number, None, work, error="boom") for work in ("m b1", "m b2", "m b4") for number in (0, 1)),
        *(record("full", number, None, "m b4", status="skipped", error="no more") for number in (0, 1)),
        *repetitions("partly", 3.0, "m b4", provenance={"fallback_nodes": ["a", "b"]}),
    ]
    run = run_of(records)
    words = overall(run, tables(run))
    held(*words[1:])
    held(words[0])
    assert [sentence for sentence in summary(run, tables(run)) if "is fastest" in sentence]


def test_what_is_unstable_in_every_repetition_is_not_called_the_fastest() -> None:
    works = ("m b1", "m b2")
    shaky = [one for work in works for one in repetitions("fast", 1.0, work, unstable=["throttled"])]
    run = run_of([*shaky, *(one for work in works for one in repetitions("slow", 2.0, work))])
    said = " ".join(summary(run, tables(run)) + leaders(tables(run)))
    assert "fast is first, 1.004 ms" in said
    assert "but none of its repetitions is stable; slow takes" in said
    assert "astest" not in said


@pytest.mark.parametrize(("runtimes", "told"), [(13, False), (14, True)])
def test_a_table_of_too_many_runtimes_to_separate(runtimes: int, told: bool) -> None:
    run = run_of([one for number in range(runtimes) for one in repetitions(f"r{number}", 1.0 + number)])
    assert any("no difference between them" in sentence for sentence in overall(run, tables(run))) is told


def test_a_run_that_was_cut_off_tells_the_fewest_repetitions() -> None:
    run = run_of([*repetitions("a", 1.0), *repetitions("b", 2.0)[:2]])
    held(overall(run, tables(run))[0])


def test_a_run_of_failures() -> None:
    run = run_of([record("a", 0, None, error="boom")])
    assert overall(run, tables(run)) == ["Nothing was measured.", "a failed at arrays: m b1: boom"]


def test_runtimes_that_lack_the_same_share_a_sentence() -> None:
    records = [
        *repetitions("ort-cpu", 1.0),
        *(record(name, 0, None, status="unavailable", error="No GPU.") for name in ("trt", "ort-trt", "ort-cuda")),
        record("torch", 0, None, status="unavailable", error="No torch."),
    ]
    run = run_of(records)
    assert overall(run, tables(run))[-2:] == [
        "trt, ort-trt, ort-cuda were not available at arrays: m b1: No GPU.",
        "torch was not available at arrays: m b1: No torch.",
    ]


def test_one_reason_is_one_row() -> None:
    records = [record("a", number, None, work, error="boom") for work in ("m b1", "m b2") for number in range(3)]
    (row,) = problems(records)
    works = ["arrays: m b1", "arrays: m b2"]
    assert row == {"runtime": "a", "status": "failed", "error": "boom", "works": works, "count": 6}


def test_unstable_repetitions_are_one_row_a_point_and_one_reason_a_kind() -> None:
    reasons = [["moved by 15 %"], ["moved by 20 %", "throttled: power cap"], [], ["moved by 31 %"]]
    (row,) = unstable([record("a", number, 1.0, unstable=why) for number, why in enumerate(reasons)])
    assert (row["work"], row["runtime"], row["repetitions"], row["measured"]) == ("arrays: m b1", "a", [0, 1, 3], 4)
    assert row["reasons"] == ["moved by 15 % (and 2 similar)", "throttled: power cap"]


def test_what_cannot_be_relied_on_is_the_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    times = zip(range(3), (31.6, 50.0, 74.0), strict=True)
    noisy = [record("a", number, ms, p50_interval_ms=(ms * 0.98, ms * 1.02)) for number, ms in times]
    run = run_of([*noisy, *(record("b", number, 20.0, p50_interval_ms=(19, 21)) for number in range(3))])
    words = overall(run, tables(run))
    held(words[0])
    held(words[1])
    assert "Unstable: 3 of 6 repetitions" in " ".join(words)
    assert "(75 % interval 31.600 to 74.000)" in tables(run_of(noisy))[0].sentence
    print_parts(shown(run))
    assert " ".join(capsys.readouterr().out.split()).startswith("Unstable: the times of 1 of 2 points")
    assert unstable(noisy)[0]["repetitions"] == [0, 1, 2]
    assert not [word for word in overall(run_of(repetitions("a", 1.0)), []) if "Unstable" in word]


def test_what_a_runtime_costs_on_a_gpu() -> None:
    # the card's counter goes on in steps: single repetitions are far off, their mean is not
    energies = [0.2, 0.6, 0.4, 0.4]
    records = [
        record("a", number, 1.0, telemetry={**SEEN, **MEMORY}, energy_per_item_j=energy)
        for number, energy in enumerate(energies)
    ]
    (row,) = tables(run_of(records))[0].rows
    assert row.energy_per_item_j == pytest.approx(0.4)
    assert (row.clock_mhz, row.temperature_max_c, row.power_mean_w) == ((1700, 1980), 61, pytest.approx(140.0))
    assert (row.device_memory_bytes, row.host_memory_bytes) == (2**30, 2**20)
    (short,) = tables(run_of(records[:1]))[0].rows
    assert short.energy_per_item_j is None


def test_a_plan_without_a_manifest_executed_it() -> None:
    provenance = {"tensorrt": "8.6.0", "plan": "a.plan", "manifest": None}
    assert executed(repetitions("a", 1.0, provenance=provenance)) == {"a": {"tensorrt": "8.6.0"}}


def test_what_executed_and_where() -> None:
    provenance = {
        "tensorrt": "10.16.1",
        "plan": "/x",
        "plan_sha256": "0",
        "manifest": {"warnings": ["w"]},
        "tf32": False,
    }
    facts = executed(repetitions("a", 1.0, provenance=provenance))
    expected = {"tensorrt": "10.16.1", "tf32": "no", "build warnings": "w"}
    assert facts == {"a": expected}
    # of a second session no more than of the first
    facts = executed(repetitions("a", 1.0, provenance={**provenance, "prompts": {**provenance, "notes": []}}))
    assert facts == {"a": {**expected, "prompts": "tensorrt 10.16.1, tf32 no"}}
    cpu = Cpu(model="C", processors_available=4)
    environment = Environment(
        command_line=[], cpu=cpu, driver=Driver(gpus=[Gpu(name="G")] * 2), variables={"CUDA_VISIBLE_DEVICES": "1"}
    )
    assert machine(environment) == "2 G (CUDA_VISIBLE_DEVICES=1); C, 4 CPUs"
    assert machine(Environment(command_line=[], cpu=Cpu(model="C", processors_available=1))) == "no GPU; C, 1 CPU"
