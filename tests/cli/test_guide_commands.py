"""Every command of README and the guides parses, and a test runs it or its block is marked with what it needs."""

import ast
import re
import shutil
from pathlib import Path

import pytest
from tests.guides import COMMANDS, GUIDES, NEEDS, PAGES, ROOT, Shown, of_block, shown
from typer.testing import CliRunner

from trt_workbench.app import app
from trt_workbench.core.workspace import embedded_model

EVERY = [one for page in PAGES for one in shown(page)]
# Of these the first thing to say is no command.
NO_COMMAND_FIRST = {"coming-from", "cpp-core", "questions", "security"}
# Longer than a screen: a program to be saved, and what each step prints.
LONGER, A_SCREEN = {"ray-serve": 91}, 64
# Outside tables and blocks.
MOST_WORDS = 300
# Of commands that need none of NEEDS: the test that runs it, on files of the test where the page names the user's.
RUN_BY = {
    "cli/test_backends.py::test_backends_lists_all_six": ["backends"],
    "cli/test_backends.py::test_doctor_shows_a_table": ["doctor"],
    "cli/test_bench.py::test_a_matrix_end_to_end": ["bench my-matrix.yaml", "bench"],
    "cli/test_bench.py::test_the_shipped_streams_are_measured_with_their_state": [
        "bench stream --only '*ort-cpu' --skip-unavailable"
    ],
    "cli/test_bench.py::test_a_slow_down_fails_the_comparison": [
        "compare tmp/bench/BEFORE tmp/bench/AFTER --tolerance 0.05"
    ],
    "cli/test_check_contract.py::test_a_sound_model_keeps_its_contract": [
        "check-contract encoder.contract.json encoder.onnx"
    ],
    "cli/test_classes.py::test_a_list_of_numbers_is_scored_by_order": [
        "eval-vision yolo26n-cls.onnx --data imagenet --classes by-order",
        "eval-vision resnet50.onnx --data imagenet --family classifier --normalize imagenet",
    ],
    "cli/test_classes.py::test_folders_are_scored_and_shown": ["eval-vision m.onnx --data imagenet/val"],
    "cli/test_classes.py::test_precisions_are_compared_by_top1": ["decide yolo26n-cls.onnx --data my-classes"],
    "cli/test_classes.py::test_the_embedded_classifier_runs_on_its_own_objects": ["eval-vision shapes-classifier"],
    "cli/test_semantic.py::test_pixels_are_scored_and_shown": [
        "eval-vision segformer.onnx --data ade20k --family semantic --normalize imagenet --resize stretch "
        "--classes by-order"
    ],
    "cli/test_masks.py::test_the_embedded_model_runs_on_the_embedded_scenes": ["eval-vision shapes-segmenter"],
    "cli/test_masks.py::test_boxes_and_masks_are_scored_and_shown": [
        "eval-vision yolo26n-seg.onnx --data coco8-seg.yaml"
    ],
    "plugins/speech/test_decide_speech.py::test_precisions_of_the_embedded_encoder_are_compared_by_their_words": [
        "decide models/streaming-encoder/streaming-encoder.onnx"
    ],
    "plugins/speech/test_decide_speech.py::test_a_manifest_gives_ranges_and_a_score": [
        "quantize encoder.onnx --to int8 --calibration train.jsonl --contract c.json"
    ],
    "plugins/speech/test_decide_speech.py::test_a_manifest_and_a_contract_of_ones_own": [
        "decide m.onnx --contract c.json --data test.jsonl --calibration train.jsonl --keep WER"
    ],
    "cli/test_decide.py::test_every_row_is_scored_measured_or_has_its_reason": [
        "decide",
        "decide model.onnx --data images/ --annotations instances.json --calibration other-images/",
        "decide m.onnx --data DIR --annotations FILE --calibration CALIB_DIR",
        "decide yolox_nano.onnx --data val2017 --annotations unseen.json --calibration seen",
    ],
    "cli/test_decide_answer.py::test_a_later_run_with_other_limits_judges_the_same_rows": [
        "decide m.onnx --data DIR --annotations FILE --max-loss 0.01 --max-latency 2ms --max-memory 512MiB "
        "--expect AP=0.391"
    ],
    "cli/test_decide.py::test_top1_agreement_is_gated_by_one_command": [
        "decide classifier.onnx --data val.npz --calibration train.npz --score top1 --precisions fp32,int8 "
        "--max-loss 0.01 --repetitions 0"
    ],
    "cli/test_own_score.py::test_a_decision_by_a_function_has_paired_intervals": [
        "decide depth.onnx --data val.npz --calibration train.npz --score depth.py:abs_rel --max-loss 0.01"
    ],
    "cli/test_own_score.py::test_an_evaluation_gives_what_a_loop_and_what_decide_gives": [
        "eval-vision depth.onnx --data val.npz --score depth.py:abs_rel"
    ],
    "cli/test_eval_coco.py::test_a_data_set_in_ultralytics_form_has_the_score_of_its_coco_form": [
        "eval-coco m.onnx --data data.yaml --split test"
    ],
    "cli/test_eval_coco.py::test_a_whole_run": [
        "eval-coco m.onnx --data DIR --annotations FILE",
        "eval-coco model.onnx --data images/ --annotations instances.json",
        "eval-coco yolox_nano.onnx --data val2017 --annotations instances_val2017.json",
    ],
    "cli/test_eval_coco.py::test_json_is_one_document_and_nothing_else": ["eval-coco --json"],
    "cli/test_eval_llm.py::test_a_whole_run": ["eval-llm DIR --text FILE --backends torch,ort-cpu"],
    "cli/test_eval_llm.py::test_formats_are_made_and_named": ["eval-llm --backends ort-cpu:bf16,ort-cpu:nvfp4"],
    "cli/test_eval_llm.py::test_generation_alone": [
        "eval-llm --modes perplexity,generate-cached",
        "eval-llm --modes generate-cached --batch 2 --new-tokens 8",
    ],
    "cli/test_eval_llm.py::test_without_a_model_the_embedded_one_is_evaluated": ["eval-llm"],
    "cli/test_eval_stream.py::test_a_reference_of_another_run_and_of_another_model": [
        "eval-stream m.onnx --contract c.json --backend ort-cpu --record --output reference"
    ],
    "cli/test_eval_stream.py::test_streams_in_real_time_are_compared_then_timed_and_shown": [
        "eval-stream --chunks 20 --streams 1,4,16,64"
    ],
    "cli/test_eval_stream.py::test_json_is_one_document": ["eval-stream --json"],
    "plugins/speech/test_transcribe.py::test_a_bare_machine_has_an_error_rate": ["eval-speech"],
    "plugins/speech/test_transcribe.py::test_the_same_audio_in_other_chunks_and_whole": [
        "eval-speech --also whole --also 17 --also 121",
        "eval-speech m.onnx --contract c.json --data test.jsonl --also offline.onnx=offline.json",
    ],
    "plugins/speech/test_transcribe.py::test_a_manifest_gives_what_the_code_gives": [
        "eval-speech m.onnx --contract c.json --data test.jsonl"
    ],
    "cli/test_eval_stream.py::test_the_embedded_encoder_needs_no_arguments": ["eval-stream"],
    "cli/test_export_llm.py::test_an_export": [
        "export-llm DIR -o OUT",
        "export-llm DIR -o OUT --graphs logits,cached,static",
        "export-llm DIR -o OUT --graphs static,step --batch 1",
        "export-llm DIR -o OUT --tensorrt 10",
        "export-llm models/tiny-lm -o tmp/lm",
        "export-llm models/tiny-lm --output tmp/lm",
    ],
    "cli/test_inspect.py::test_people_read_the_same": ["inspect model.onnx"],
    "cli/test_predict.py::test_a_folder_gives_lines_pictures_and_a_document": ["predict yolox_nano.onnx photos/"],
    "cli/test_predict.py::test_a_video_is_seen_frame_by_frame": [
        "predict model.onnx clip.mp4 --limit 100 --no-pictures"
    ],
    "cli/test_predict.py::test_classes_are_kept_by_name_or_index": ["predict model.onnx photos/ --classes person,2"],
    "cli/test_profile.py::test_every_node_of_a_real_detector_is_traced_to_the_model": [
        "profile shapes-yolov10.onnx --backend ort-cpu",
        "profile model.onnx --backend ort-cpu",
    ],
    "cli/test_profile.py::test_two_models_are_compared_node_by_node_and_casts_are_named": [
        "profile model.onnx --backend ort-cpu --against model-fp16.onnx"
    ],
    "cli/test_quantize.py::test_json_is_the_evidence_alone": ["quantize model.onnx --to fp8 --calibration samples.npz"],
    "cli/test_quantize.py::test_the_embedded_detector_from_images": [
        "quantize model.onnx --to int8 --calibration images/",
        "quantize yolox_nano.onnx --to int8 --calibration coco-tiny/val2017",
    ],
    "plugins/serving/test_served.py::test_a_detector_has_the_same_boxes_as_served": [
        "eval-coco detector.onnx --data data.yaml --backend v2 --url http://localhost:8000 --concurrency 8"
    ],
    "plugins/serving/test_served.py::test_a_served_model_is_verified_within_the_batches_of_the_server": [
        "verify detector.onnx --backend v2 --url http://localhost:8000"
    ],
    "plugins/serving/test_served.py::test_bench_measures_a_server_at_each_concurrency": [
        "bench served --model detector=detector.onnx --url http://localhost:8000"
    ],
    "plugins/serving/test_served_llm.py::test_a_served_model_has_the_perplexity_of_the_model": [
        "eval-llm DIR --text FILE --backends openai --option openai:url=http://localhost:8000"
    ],
    "plugins/serving/test_served_llm.py::test_a_served_model_generates_what_the_model_generates": [
        "eval-llm DIR --text FILE --backends openai:fp16 --modes generate --batch 4 "
        "--option openai:url=http://localhost:8000"
    ],
    "plugins/serving/test_export.py::test_a_model_for_the_python_backend_has_its_step": [
        "export-triton detector.onnx -o models --python --max-batch 8"
    ],
    "cli/test_sensitivity.py::test_a_search_writes_model_evidence_and_page": [
        "quantize model.onnx --to int8 --calibration samples.npz --score top1 --keep-score 0.01",
    ],
    "cli/test_sensitivity.py::test_a_detector_keeps_its_ap_on_annotated_images": [
        "quantize detector.onnx --to int8 --calibration images/ --annotations instances.json --keep-score 0.005",
    ],
    "cli/test_sensitivity.py::test_groups_of_a_detector_are_scored_by_ap_on_annotated_images": [
        "sensitivity model.onnx --to int8 --calibration images/ --annotations instances.json",
        "sensitivity yolox_nano.onnx --calibration coco-tiny/val2017 --annotations instances_val2017.json --worst 2",
    ],
    "cli/test_sensitivity.py::test_the_proposed_command_is_taken_and_brings_what_is_said": [
        "quantize yolox_nano.onnx --calibration coco-tiny/val2017 --to int8 --keep Conv_47",
    ],
    "cli/test_sensitivity.py::test_a_table_a_document_and_a_page": [
        "sensitivity model.onnx --to int8 --calibration images/",
        "sensitivity model.onnx --to fp8 --calibration samples.npz --score cosine",
    ],
    "cli/test_sanitize_onnx.py::test_the_report_says_what_changed_and_what_is_left": [
        "sanitize-onnx model.onnx -o clean.onnx",
        "sanitize-onnx model.onnx -o clean.onnx --dim batch=1 --also finite-masks",
    ],
    "cli/test_shards.py::test_shards_give_what_one_process_gives": [
        "eval-coco --shard 0/2 --output runs/all/shard-0",
        "eval-coco --shard 1/2 --output runs/all/shard-1",
        "merge runs/all/shard-0 runs/all/shard-1 -o runs/whole",
    ],
    "unit/gate/test_gate.py::test_a_score_is_judged_by_its_limit_and_its_baseline": ["gate gate.yaml"],
    "cli/test_upgrade.py::test_a_recorded_side_is_compared_later": [
        "upgrade detector.onnx --from env-old --backend ort-cpu --record --output kept",
        "upgrade detector.onnx --from kept --to env-new --backend ort-cpu",
    ],
    "cli/test_upgrade.py::test_a_scheduled_job_has_a_history": [
        "upgrade '*.onnx' --from env-release --backend ort-cpu --record --output nightly/release",
        "upgrade '*.onnx' --from nightly/release --to env-tonight --backend ort-cpu --output 'nightly/$(date' '+%F)'",
        "report nightly",
    ],
    "cli/test_upgrade.py::test_what_a_new_stack_breaks_is_found_and_reduced": [
        "upgrade detector.onnx encoder.onnx --from env-old --to env-new --backend ort-cpu"
    ],
    "cli/test_upgrade_resume.py::test_a_resumed_run_that_is_interrupted_keeps_all_that_was_finished": [
        "upgrade '*.onnx' --from env-old --to env-new --backend ort-cpu --output night",
    ],
    "cli/test_verify.py::test_a_run_is_recorded_and_is_the_reference_of_another": [
        "verify model.onnx --backend ort-cpu --reference torch --record --output recorded"
    ],
    "cli/test_verify.py::test_a_wrong_engine_has_exit_code_1_a_page_and_the_arrays_of_its_failure": [
        "verify models/shapes-yolov10/shapes-yolov10.onnx --backend faulty --option 'fault=rows after the first' "
        "--quick --dim batch=1:2:3",
    ],
    "cli/test_verify.py::test_bisect_names_the_nodes_and_a_later_call_goes_on": [
        "verify attention.onnx --backend graph-fault --option 'fault=masked attention' --quick --bisect"
    ],
    "cli/test_verify.py::test_rows_of_ones_own_are_put_together_on_torch_compile": [
        "verify model.onnx --backend torch-compile --inputs samples/",
    ],
    "cli/engines/test_build_engine.py::test_dry_run_tells_key_and_place_and_builds_nothing": [
        "build-engine model.onnx --config settings.yaml --dry-run"
    ],
    "cli/engines/test_infer_model.py::test_measuring_keeps_every_call": [
        "infer-engine shapes-yolov10.onnx --backend ort-cpu"
    ],
    "cli/engines/test_infer_model.py::test_one_backend_is_the_reference_of_the_next": [
        "infer-engine model.onnx --backend ort-cpu -i samples/ --output tmp/reference"
    ],
    "cli/engines/test_plans.py::test_the_manifest_is_shown_without_the_native_core": [
        "inspect model.plan --manifest-only"
    ],
    "integration/test_backends_agree.py::test_a_backend_gives_the_figures_of_ort_cpu": [
        "eval-coco --backend torch --precision bf16 --limit 60"
    ],
    "integration/test_eval_coco.py::test_figures_of_an_independent_evaluation": [
        "eval-coco",
        "eval-coco --limit 100 --output results/quick",
    ],
    "unit/quantize/test_array_scores.py::test_a_language_model_has_a_perplexity": [
        "decide tmp/lm/logits.onnx --data text.txt --calibration other.txt --tokenizer models/tiny-lm"
    ],
    "unit/quantize/test_data.py::test_a_text_becomes_windows_of_tokens": [
        "quantize logits.onnx --to int8 --calibration text.txt --tokenizer FOLDER"
    ],
    "unit/decide/test_existing.py::test_evaluations_and_a_bench_make_a_decision": [
        "report RUN RUN RUN --output FOLDER --max-loss 0.005"
    ],
    "unit/decide/test_judge.py::test_what_keeps_ap_and_loses_another_score_that_is_kept_is_not_recommended": [
        "decide m.onnx --data DIR --annotations FILE --keep AP,f1@0.4,ece@0.4"
    ],
    "unit/decide/test_subject.py::test_a_detector_is_searched_on_calibration_images_that_have_annotations": [
        "decide m.onnx --data DIR --annotations FILE --calibration CALIB_DIR --calibration-annotations CALIB_FILE"
    ],
    "unit/model/low_precision/test_blocks.py::test_nvfp4_in_the_form_that_tensorrt_reads": [
        "quantize model.onnx --to nvfp4",
        "quantize logits.onnx --to nvfp4",
    ],
    "unit/model/low_precision/test_cast.py::test_constants_that_fp16_cannot_hold_keep_their_node_in_fp32": [
        "quantize model.onnx --to fp16"
    ],
    "plugins/fleet/test_submit.py::test_a_local_run_is_what_one_process_gives": ["submit RUN.yaml --run"],
    "plugins/fleet/test_submit.py::test_the_script_of_slurm_is_readable": [
        "submit RUN.yaml --to slurm",
        "submit RUN.yaml --to slurm --gpu-types h200",
    ],
    "plugins/fleet/test_slurm.py::test_a_disturbed_array_gives_what_one_process_gives": [
        "submit RUN.yaml --to slurm --run"
    ],
    "plugins/history/test_history.py::test_changes_are_named_and_drawn": ["report tmp/bench"],
    "plugins/history/test_history.py::test_the_command_takes_a_folder": [
        "report results --over commits --output pages"
    ],
    "unit/report/test_overview.py::test_runs_of_every_command_together": [
        "report tmp/bench/RUN tmp/eval-coco/RUN --output overview"
    ],
    "unit/setup/test_tensorrt_setup.py::test_an_unpacked_archive_is_linked": [
        "setup-tensorrt --from '~/TensorRT-10.16.1.11'"
    ],
    "unit/setup/test_tensorrt_setup.py::test_headers_come_from_git_at_the_nearest_tag": [
        "setup-tensorrt --from /usr --headers-git '~/src/TensorRT'"
    ],
    "unit/setup/test_tensorrt_setup.py::test_what_the_environment_has_comes_before_a_download": [
        "setup-tensorrt --source wheels --json"
    ],
}
_OF_THE_MACHINE = re.compile(r"^missing: |^TensorRT is not set up|unknown here")
# Run here, word for word; what the page shows below it has to be printed.
RUN_HERE = [
    "bench --list",
    "build-engine shapes-yolov10.onnx --max-batch 8 --precision fp16 --dry-run",
    "build-ort --dry-run",
    "inspect shapes-yolov10",
    "make-contract encoder.onnx -o encoder.contract.json",
    "make-contract encoder.onnx -o encoder.contract.json --first 65 --later 121 --left-context 9 --init 0 --batch 8",
    "partitions shapes-yolov10.onnx --backend ort-cpu",
    "sanitize-onnx shapes-yolov10.onnx -o clean.onnx --dim batch=1",
]


@pytest.mark.parametrize("one", EVERY, ids=lambda one: f"{one.page}-{one.line}")
def test_a_command_parses(one: Shown) -> None:
    name, *words = one.words
    COMMANDS[name].make_context(name, list(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_block_names_what_its_commands_need(page: Path) -> None:
    by_block: dict[str, frozenset[str]] = {}
    wrong = []
    for one in shown(page):
        by_block.setdefault(one.line, one.marks)
        if not one.needs <= one.marks <= NEEDS.keys():
            wrong.append(f"{one.line} needs {sorted(one.needs)}, its block says {sorted(one.marks)}")
    assert wrong == []


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_a_guide_fits_a_screen(page: Path) -> None:
    """The rest of it is in docs/reference/commands."""
    assert len(page.read_text(encoding="utf-8").splitlines()) <= LONGER.get(page.stem, A_SCREEN)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_a_guide_has_few_words(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert sum(len(line.split()) for line in text.splitlines() if not line.startswith("|")) <= MOST_WORDS


@pytest.mark.parametrize(
    "page", [page for page in GUIDES if page.stem not in NO_COMMAND_FIRST], ids=lambda page: page.name
)
def test_a_guide_begins_with_its_command(page: Path) -> None:
    _, first = page.read_text(encoding="utf-8").split("\n\n", 1)
    assert first.startswith("```")
    assert shown(page)


def test_a_mark_that_is_missing_would_be_found() -> None:
    (one,) = of_block("x.md", frozenset(), "pixi run -e gpu infer-engine m.plan\n")
    assert (one.words, one.needs) == (("infer-engine", "m.plan"), {"gpu"})
    assert not of_block("x.md", frozenset(), "$ trtw build-engine m.onnx --dry-run\n")[0].needs


def test_every_other_command_is_run_by_a_test() -> None:
    listed = [line for lines in RUN_BY.values() for line in lines] + RUN_HERE
    wanted = {one.line for one in EVERY if not one.needs}
    assert {"not run": wanted - set(listed), "not shown": set(listed) - wanted} == {
        "not run": set(),
        "not shown": set(),
    }
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("test", RUN_BY)
def test_the_tests_that_run_them_exist(test: str) -> None:
    file, name = test.split("::")
    functions = [
        node.name for node in ast.parse((ROOT / "tests" / file).read_text()).body if isinstance(node, ast.FunctionDef)
    ]
    assert name in functions


@pytest.mark.parametrize("line", RUN_HERE)
def test_a_cheap_command_prints_what_the_page_shows(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "tmp"))
    monkeypatch.setenv("COLUMNS", "120")
    shutil.copy(embedded_model(), "shapes-yolov10.onnx")
    shutil.copy(ROOT / "models" / "streaming-encoder" / "streaming-encoder.onnx", "encoder.onnx")
    one = next(one for one in EVERY if one.line == line)
    done = CliRunner().invoke(app, list(one.words))
    assert done.exit_code == 0, done.output
    printed = _plain(done.output)
    assert [text for text in _below(one) if text not in printed] == []


def _below(one: Shown) -> list[str]:
    """Return what the page shows as printed by a command, without what TensorRT on the machine would change.

    Table rows and lines, in pieces where a `…` stands for more.
    """
    for text in (page.read_text() for page in PAGES if page.name == one.page):
        for body in re.findall(rf"^\$ trtw {re.escape(one.line)}[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            lines = [line for line in body.splitlines() if not _OF_THE_MACHINE.search(line)]
            return [plain for line in lines for part in line.split("…") if (plain := _plain(part))]
    return []


def _plain(text: str) -> str:
    """Return text without the lines of tables and with single blanks."""
    return " ".join(re.sub(r"[\u2500-\u257f]", " ", text).split())


def test_what_is_shown_below_a_command_is_found() -> None:
    one = next(one for one in EVERY if one.line == "inspect shapes-yolov10")
    assert "input images float32 [batch, 3, 320, 320]" in _below(one)
