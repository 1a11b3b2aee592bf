"""What README claims has a test or a record: a claim without one, or whose test or record is gone, fails."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
H200 = "docs/benchmarks/precision/h200/decision.json"
TRTEXEC = "docs/benchmarks/tensorrt-h200/records.jsonl"
BENCH_H200 = "docs/benchmarks/bench-h200/README.md"
RUN = "docs/compatibility.md"
# Words of README, and what shows that they are true: tests (below tests/) and records.
CLAIMS: dict[str, tuple[str, ...]] = {
    "with evidence for every number": (
        "cli/test_bench_outputs.py",
        "cli/test_decide.py::test_every_row_is_scored_measured_or_has_its_reason",
    ),
    "Ship fp16 on trt": (
        "cli/test_docs.py::test_the_readmes_answer_is_the_record_and_its_picture_is_the_reports",
        H200,
    ),
    "This is the answer for YOLOX-Nano on an H200": (H200,),
    "no GPU. In a clone": ("integration/test_installed.py::test_every_command_works_without_a_repository",),
    "YOLOX-Nano with 40 images took": ("docs/benchmarks/first-hour/README.md",),
    "Without a clone": ("unit/tasks/test_packaging.py::test_pip_reads_the_readmes_address_of_the_package",),
    "from a fresh clone took": ("docs/benchmarks/first-hour/README.md", "unit/test_pixi_manifest.py"),
    "you come from": ("cli/test_foreign_words.py::test_commands_of_the_page_are_ours_and_theirs",),
    "The package works without the repository": (
        "integration/test_installed.py::test_every_command_works_without_a_repository",
    ),
    "family is recognised from its outputs and metadata": (
        "unit/vision/test_recognise.py::test_one_output_of_a_known_shape",
        "unit/vision/test_recognise.py::test_what_is_not_certain_asks_for_the_family",
    ),
    "From Python": ("unit/test_api.py::test_the_readmes_lines_run",),
    "In CI, one job with one exit code": ("cli/test_agents.py",),
    "compute capability 7.5 or newer, with driver 580": (
        "unit/test_pixi_manifest.py::test_a_card_can_run_the_environments_that_are_made_for_it",
    ),
    "COCO scores of a detector": (
        "integration/test_eval_coco.py::test_figures_are_those_of_plain_pycocotools",
        "cli/test_masks.py::test_boxes_and_masks_are_scored_and_shown",
        "cli/test_tasks.py::test_poses",
        "cli/test_tasks.py::test_oriented_boxes",
        "cli/test_classes.py::test_folders_are_scored_and_shown",
        "cli/test_semantic.py::test_pixels_are_scored_and_shown",
    ),
    "perplexity of a language model": (
        "cli/test_eval_llm.py::test_a_whole_run",
        "cli/test_eval_llm.py::test_generation_alone",
    ),
    "a streaming model chunk by chunk": (
        "cli/test_eval_stream.py::test_the_embedded_encoder_needs_no_arguments",
        "cli/test_eval_stream.py::test_streams_in_real_time_are_compared_then_timed_and_shown",
    ),
    "what each precision of a streaming model transcribes": (
        "plugins/speech/test_transcribe.py::test_a_bare_machine_has_an_error_rate",
        "plugins/speech/test_transcribe.py::test_a_precision_that_writes_other_words_fails",
    ),
    "the objects in your images and videos": (
        "cli/test_predict.py::test_a_folder_gives_lines_pictures_and_a_document",
        "cli/test_predict.py::test_a_video_is_seen_frame_by_frame",
    ),
    "runtimes measured side by side": ("cli/test_bench.py::test_a_matrix_end_to_end",),
    "whether one benchmark run is slower": ("cli/test_bench.py::test_a_slow_down_fails_the_comparison",),
    "new weights for an engine": ("cli/engines/test_plans.py::test_a_stripped_plan_is_refused_until_it_has_weights",),
    "the decision by a metric of your own": (
        "cli/test_own_score.py::test_examples_of_the_guide_give_what_a_loop_gives",
    ),
    "metrics of many runs over dates or commits": (
        "plugins/history/test_history.py::test_changes_are_named_and_drawn",
    ),
    "where the time goes": (
        "cli/test_profile.py::test_every_node_of_a_real_detector_is_traced_to_the_model",
        "cli/test_profile.py::test_an_engine_is_profiled_layer_by_layer",
    ),
    "an ONNX model to a TensorRT engine, cached": (
        "cli/engines/test_build_engine.py::test_a_build_is_kept_shown_and_found_again",
        "cli/engines/test_plans.py::test_inspect_shows_manifest_and_layers",
    ),
    "runs an engine, or a model on any runtime": (
        "cli/engines/test_infer_model.py::test_one_backend_is_the_reference_of_the_next",
        "cli/engines/test_infer_engine.py::test_measuring_keeps_every_sample",
    ),
    "whether an engine is correct at every batch and shape": ("cli/test_verify.py", "docs/benchmarks/verify/README.md"),
    "whether a streaming model does what its": (
        "cli/test_check_contract.py::test_a_model_that_does_not_keep_it_is_exit_code_1",
    ),
    "a language model to ONNX graphs": ("cli/test_export_llm.py::test_an_export",),
    "every precision of a model on every runtime": (
        "cli/test_decide.py::test_every_row_is_scored_measured_or_has_its_reason",
    ),
    "correctness, score and latency against the limits": ("unit/gate/test_gate.py", "cli/test_agents.py"),
    "noise and arithmetic of each group": ("cli/test_sensitivity.py::test_a_table_a_document_and_a_page",),
    "calibrated with the preprocessing of inference": ("cli/test_quantize.py::test_the_embedded_detector_from_images",),
    "rewrites what TensorRT refuses": (
        "cli/test_sanitize_onnx.py::test_the_report_says_what_changed_and_what_is_left",
        "cli/test_sanitize_onnx.py::test_a_failed_check_writes_nothing",
    ),
    "what a model or an engine is": ("cli/test_inspect.py::test_a_model_is_told_whole",),
    "compiled for RTX cards that this machine does not have": (
        "plugins/rtx/test_check_target.py::test_the_real_compiler",
        "plugins/rtx/test_check_target.py::test_one_refusal_fails_the_check_and_says_layer_and_type",
    ),
    "with another version of a runtime": ("cli/test_upgrade.py::test_what_a_new_stack_breaks_is_found_and_reduced",),
    "to the run that one process would have made": ("cli/test_shards.py::test_shards_give_what_one_process_gives",),
    "by Slurm, Kubernetes, Ray or on this machine": (
        "plugins/fleet/test_submit.py::test_a_local_run_is_what_one_process_gives",
        "plugins/fleet/test_submit.py::test_the_manifest_meets_the_schemas_of_kubernetes",
        "plugins/fleet/test_slurm.py",
        "plugins/fleet/test_ray.py",
    ),
    "which node of a model which provider executes": ("cli/test_partitions.py",),
    "a plan as a repository for Triton": (
        "plugins/serving/test_export.py::test_a_plan_is_served_as_its_manifest_says",
        "plugins/serving/test_tritonserver.py",
        "plugins/serving/test_ray_serve.py",
        "plugins/serving/test_served.py::test_rows_that_dynamic_batching_mixes_up_are_found",
        "plugins/serving/test_served_llm.py::test_a_served_model_has_the_perplexity_of_the_model",
    ),
    "which runtimes can serve on this machine": ("cli/test_backends.py::test_backends_lists_all_six",),
    "installs TensorRT under": (
        "unit/setup/test_tensorrt_setup.py::test_the_pinned_wheel_is_downloaded_once",
        "cli/test_doctor.py",
    ),
    "TensorRT provider from source": ("unit/setup/test_ort_build.py",),
    "lets the shell complete them": (
        "cli/test_help.py::test_a_shell_completes_commands_options_and_choices",
        "cli/test_errors.py::test_other_errors_have_their_code",
    ),
    "installs CUDA and everything else": (
        RUN,
        "unit/test_pixi_manifest.py::test_a_task_is_the_same_in_every_environment",
    ),
    "the tests that need no GPU": (RUN,),
    "scores, simulation of fp8 and fp4": ("cli/test_eval_llm.py::test_formats_are_made_and_named",),
    "ONNX Runtime CPU; CUDA": (RUN, "gpu/test_runtimes.py"),
    "| PyTorch |": (RUN, "gpu/test_runtimes.py"),
    "TensorRT 8.6 |": (RUN, "gpu/test_engine_commands.py"),
    "TensorRT 10.16, 11": (
        RUN,
        "cli/engines/test_build_engine.py::test_dry_run_tells_key_and_place_and_builds_nothing",
    ),
    "compiled ahead of time (`check-target`)": ("plugins/rtx/test_check_target.py::test_the_real_compiler",),
    "run on an H200 with TensorRT 8.6": ("docs/benchmarks/ort-trt-h200/README.md", "gpu/test_ort_trt.py"),
    "pixi 0.77 has run the manifest": (RUN,),
    "compared with trtexec on the same plans": (TRTEXEC,),
    "ResNet-50, batch 128": (BENCH_H200,),
    "ViT-B/16, batch 32": (BENCH_H200,),
    "all-MiniLM-L6-v2, 128 tokens": (BENCH_H200,),
    "GPT-2's shape, 1024 tokens": (BENCH_H200,),
    "the twelve metrics are pycocotools'": (
        "integration/test_eval_coco.py::test_figures_are_those_of_plain_pycocotools",
    ),
}
# Headings of tables, and what only leads elsewhere.
NO_CLAIM = (
    "| command |",
    "| purpose |",
    "Five to start",
    "| | CPU |",
    "| | `trt` fp16 |",
    "[Benchmarks]",
    "[Which command?]",
)


def statements() -> list[str]:
    """Return the paragraphs of README, and of tables the rows."""
    text = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
    found = []
    for part in (one.strip() for one in re.split(r"\n\s*\n", text)):
        if part.startswith("|"):
            found += [row for row in part.splitlines() if row.strip("|-: ")]
        elif part and not part.startswith(("#", "[![")):
            found.append(" ".join(part.split()))
    return found


@pytest.mark.parametrize(
    "said", [one for one in statements() if not one.startswith(NO_CLAIM)], ids=lambda one: one[:40]
)
def test_a_statement_of_readme_has_its_evidence(said: str) -> None:
    assert [claim for claim in CLAIMS if claim in said]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_evidence_is_there(claim: str) -> None:
    assert claim in " ".join(README.split())
    for evidence in CLAIMS[claim]:
        place, _, test = evidence.partition("::")
        file = ROOT / place if place.startswith("docs/") else ROOT / "tests" / place
        assert file.is_file(), evidence
        assert f"def {test}(" in file.read_text(encoding="utf-8") if test else True, evidence
