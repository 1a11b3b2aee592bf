"""DETR with boxes and class logits apart: recognised by names, decoded as its exporters' own post-processing does."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hotcoco import mask
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import NotFinite, UsageProblem
from trt_workbench.model.opened import Model
from trt_workbench.vision.families import DecodeSettings, Family, recognise
from trt_workbench.vision.families.recognise import family_of
from trt_workbench.vision.letterbox import find_geometry
from trt_workbench.vision.masks import Masks

IMAGE = (TensorSpec("pixel_values", "float32", (None, 3, 64, 96)),)
ALL = DecodeSettings(conf=0.0)


def specs(boxes: Any = (None, 3, 4), logits: Any = (None, 3, 2), names: Any = ("pred_boxes", "logits")) -> Any:
    return TensorSpec(names[0], "float32", boxes), TensorSpec(names[1], "float32", logits)


def family(**given: Any) -> Family:
    return recognise(IMAGE, specs(**given), {}, Preparation(normalize="none"))


def logit(score: Any) -> Any:
    return np.log(score) - np.log1p(-np.asarray(score))


@pytest.mark.parametrize("names", [("pred_boxes", "logits"), ("dets", "labels"), ("pred_boxes", "pred_logits")])
@pytest.mark.parametrize("logits", [(None, 3, 6), (None, 3, 91), (None, None, None)])
def test_the_names_of_the_outputs_are_certain(names: tuple[str, str], logits: Any) -> None:
    outputs = (*reversed(specs(logits=logits, names=names)), TensorSpec("features", "float32", (None, 3, 16, 24)))
    found = recognise(IMAGE, outputs, {})
    assert (found.name, found.output.name, found.class_count) == ("detr-logits", names[0], logits[2])


@pytest.mark.parametrize(
    "outputs",
    [
        specs((None, 3, 80), (None, 3, 4)),
        specs((None, 3, 4), (None, 2, 80)),
        specs((None, 3, 4), (None, 80)),
        specs((1, 3, 5), (1, 3), ("dets", "labels")),
        (specs()[0], TensorSpec("labels", "int64", (None, 3, 2))),
    ],
)
def test_outputs_that_cannot_be_boxes_and_logits_are_refused(outputs: Any) -> None:
    for asked in (None, "detr-logits"):
        with refused(UsageProblem):
            recognise(IMAGE, outputs, {}, Preparation(family=asked))


def test_another_family_is_not_read_from_one_of_the_two_outputs() -> None:
    for asked in ("detr", "yolov10"):
        with refused(UsageProblem):
            recognise(IMAGE, specs(logits=(None, 3, 6)), {}, Preparation(family=asked))
    with refused(UsageProblem):
        recognise(IMAGE, (TensorSpec("output0", "float32", (1, 3, 6)),), {}, Preparation(family="detr-logits"))


def test_the_normalisation_is_said_and_never_guessed() -> None:
    with refused(UsageProblem):
        recognise(IMAGE, specs(), {}).preparation()
    with refused(UsageProblem):
        recognise(IMAGE, specs(), {"normalize": "mean"})
    own = recognise(IMAGE, specs(), {"normalize": "imagenet"}).preparation()
    assert (own.placement, own.channels, own.mean, own.std[2]) == ("stretch", "rgb", (0.485, 0.456, 0.406), 0.225)
    users = recognise(IMAGE, specs(), {"normalize": "imagenet"}, Preparation(normalize="none")).preparation()
    assert (users.mean, users.std) == ((0, 0, 0), (1, 1, 1))


@pytest.mark.parametrize(("background", "labels"), [("last", [1, 0]), ("first", [1, 0]), ("none", [2, 2])])
def test_a_background_slot_is_left_out_before_the_best_pairs_are_chosen(background: str, labels: list[int]) -> None:
    boxes = np.full((1, 2, 4), 0.5, np.float32)
    scores = np.array([[[0.1, 0.4, 0.9], [0.3, 0.2, 0.9]]])
    outputs = {"pred_boxes": boxes, "logits": logit(np.roll(scores, 1, axis=2) if background == "first" else scores)}
    found = recognise(IMAGE, specs(logits=(None, 2, 3), boxes=(None, 2, 4)), {}, Preparation(background=background))
    assert found.class_count == (3 if background == "none" else 2)
    (own,) = found.decode(outputs, ALL)
    assert own.labels.tolist() == labels
    assert own.scores.tolist() == pytest.approx([0.9, 0.9] if background == "none" else [0.4, 0.3])


def test_the_background_is_the_slot_that_has_no_name() -> None:
    names = {"names": "['a', 'b']", "normalize": "none"}
    open_to_both = recognise(IMAGE, specs(logits=(None, 3, 3)), names)
    with refused(UsageProblem):
        open_to_both.preparation()
    assert recognise(IMAGE, specs(logits=(None, 3, 3)), {**names, "background": "last"}).preparation()
    with refused(UsageProblem):
        recognise(IMAGE, specs(logits=(None, 3, 3)), names, Preparation(background="none"))
    with refused(UsageProblem):
        recognise(IMAGE, specs(logits=(None, 3, 1)), {}, Preparation(background="first"))


def test_the_best_pairs_count_as_many_as_there_are_queries() -> None:
    boxes = np.array([[[0.5, 0.25, 0.5, 0.25], [0.25, 0.5, 0.5, 1], [0.5, 0.5, 1, 1]]], np.float16)
    scores = [[[0.9, 0.8], [0.7, 0.1], [0.05, 0.02]]]
    outputs = {"logits": logit(scores).astype(np.float16), "pred_boxes": boxes}
    (found,) = family().decode(outputs)
    assert found.labels.tolist() == [0, 1, 0]  # the first query gives two classes, the last one none
    assert found.scores == pytest.approx([0.9, 0.8, 0.7], abs=1e-3)
    np.testing.assert_allclose(found.boxes, [[24, 8, 72, 24], [24, 8, 72, 24], [0, 0, 48, 64]])
    assert len(family().decode(outputs, DecodeSettings(max_dets=2))[0].scores) == 2
    assert len(family().decode(outputs, DecodeSettings(conf=0.75))[0].scores) == 2


def test_logits_that_are_none_are_refused() -> None:
    boxes = np.full((1, 3, 4), 0.5, np.float32)
    for bad in (np.nan, -np.inf):
        with refused(NotFinite):
            family().decode({"pred_boxes": boxes, "logits": np.full((1, 3, 2), bad, np.float32)})
    with refused(UsageProblem):
        family().decode({"pred_boxes": boxes, "logits": np.zeros((1, 2, 2), np.float32)})
    with refused(UsageProblem):
        family().decode({"pred_boxes": boxes})
    no_object = np.tile(np.array([-2, -3, 4], np.float32), (1, 3, 1))
    with refused(UsageProblem):
        family(logits=(None, 3, 3)).decode({"pred_boxes": boxes, "logits": no_object})


def test_the_last_class_may_have_most_queries_where_the_background_is_left_out() -> None:
    boxes, last_class = np.full((1, 3, 4), 0.5, np.float32), np.tile(np.array([-2, 4, -3], np.float32), (1, 3, 1))
    found = recognise(IMAGE, specs(logits=(None, 3, 3)), {}, Preparation(background="last"))
    (own,) = found.decode({"pred_boxes": boxes, "logits": last_class}, DecodeSettings(conf=0.5))
    assert own.labels.tolist() == [1, 1, 1]


def test_boxes_are_clipped_where_rf_detr_gave_the_names() -> None:
    outputs = [np.array([[[0.9, 0.5, 0.4, 1.5]]], np.float32), np.zeros((1, 1, 91), np.float32)]
    for names, expected in ((("pred_boxes", "logits"), [105, -20, 165, 100]), (("dets", "labels"), [105, 0, 150, 80])):
        # The shapes of RF-DETR's own exporter: it fixes the number of slots alone.
        found = recognise(IMAGE, specs((None, None, None), (None, None, 91), names), {}, Preparation(normalize="none"))
        (own,) = found.decode(dict(zip(names, outputs, strict=True)), DecodeSettings(max_dets=1))
        np.testing.assert_allclose(
            found.restore(own, find_geometry(80, 150, found.transform())).boxes, [expected], atol=1e-4
        )


HEADS = {"decoder_self_attention_heads": 2, "decoder_cross_attention_heads": 2}
SIZE = {"num_queries": 9, "d_model": 32, "decoder_ffn_dim": 32, "decoder_layers": 2}


def small_model(name: str) -> Any:
    """Return a model of transformers with random weights, spread so that scores and boxes differ."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    if name == "LwDetr":
        parts = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "window_block_indices": [0]}
        backbone = transformers.LwDetrViTConfig(
            **parts, out_indices=[0, 1, 2], image_size=64, pretrain_image_size=64, num_windows=4
        )
        given = {"projector_scale_factors": [1.0], "num_labels": 91, "group_detr": 1, **SIZE, **HEADS}
    else:
        sides = {"hidden_sizes": [8, 16, 32, 64], "depths": [1] * 4, "layer_type": "basic", "embedding_size": 8}
        backbone = transformers.RTDetrResNetConfig(**sides, out_features=["stage2", "stage3", "stage4"])
        encoder = {"encoder_hidden_dim": 32, "encoder_in_channels": [16, 32, 64], "encoder_ffn_dim": 32}
        heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "decoder_in_channels": [32] * 3}
        given = {"hidden_expansion": 0.5, "num_labels": 7, **SIZE, **encoder, **heads}
    config = getattr(transformers, f"{name}Config")(backbone_config=backbone, **given)
    model = getattr(transformers, f"{name}ForObjectDetection")(config).eval().requires_grad_(False)
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.normal_(layer.weight, std=0.15)
    return model


def export(model: Any, path: Path) -> None:
    """Export a model as its users do: the image to logits and boxes, for any batch."""
    import torch

    class Apart(torch.nn.Module):
        def forward(self, pixel_values: Any) -> tuple[Any, Any]:
            found = model(pixel_values=pixel_values)
            return found.logits, found.pred_boxes

    names = ["pixel_values", "logits", "pred_boxes"]
    torch.onnx.export(
        Apart().eval(), (torch.rand(2, 3, 64, 64),), path, input_names=names[:1], output_names=names[1:],
        dynamic_axes={name: {0: "N"} for name in names}, opset_version=17, dynamo=False,
    )  # fmt: skip
    made = onnx.load(path)
    onnx.helper.set_model_props(made, {"normalize": "none"})
    onnx.save(made, path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["RTDetr", "RTDetrV2", "DFine", "LwDetr"])
def test_boxes_are_those_of_the_exporters_own_post_processing(name: str, tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    onnxruntime = pytest.importorskip("onnxruntime")
    export(small_model(name), tmp_path / "m.onnx")
    found = family_of(Model.open(tmp_path / "m.onnx"))
    assert (found.name, found.class_count) == ("detr-logits", 91 if name == "LwDetr" else 7)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    kind = transformers.DeformableDetrImageProcessorPil if name == "LwDetr" else transformers.RTDetrImageProcessorPil
    rng, transform = np.random.default_rng(0), found.transform()
    for batch, size in itertools.product((1, 3), ((48, 60), (480, 333))):
        logits, boxes = session.run(None, {"pixel_values": rng.random((batch, 3, 64, 64), np.float32)})
        both = transformers.utils.ModelOutput(logits=torch.tensor(logits), pred_boxes=torch.tensor(boxes))
        of_all = {"top_k": logits.shape[1]} if name == "LwDetr" else {}
        expected = kind().post_process_object_detection(both, threshold=0.0, target_sizes=[size] * batch, **of_all)
        for own, theirs in zip(found.decode({"logits": logits, "pred_boxes": boxes}, ALL), expected, strict=True):
            restored = found.restore(own, find_geometry(*size, transform)).boxes
            assert own.labels.tolist() == theirs["labels"].tolist()
            np.testing.assert_allclose(own.scores, theirs["scores"], rtol=1e-5)
            np.testing.assert_allclose(restored, theirs["boxes"], atol=1e-3 * max(size))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "side", "classes"), [("Nano", 128, 90), ("SegNano", 96, 5)])
def test_boxes_and_masks_are_those_of_rf_detrs_own_exporter(kind: str, side: int, classes: int, tmp_path: Path) -> None:
    torch, rfdetr = pytest.importorskip("torch"), pytest.importorskip("rfdetr")
    onnxruntime, process = pytest.importorskip("onnxruntime"), pytest.importorskip("rfdetr.models.postprocess")
    torch.manual_seed(0)
    config = {
        "resolution": side,
        "dec_layers": 2,
        "num_queries": 30,
        "out_feature_indexes": [1, 2],
        "num_classes": classes,
    }
    model = getattr(rfdetr, f"RFDETR{kind}")(pretrain_weights=None, device="cpu", num_select=30, **config)
    path = model.export(output_dir=str(tmp_path), dynamic_batch=True, verbose=False)
    found = family_of(Model.open(path), Preparation(background="none" if classes == 90 else "last"))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng, transform, names = np.random.default_rng(0), found.transform(), [one.name for one in session.get_outputs()]
    for batch, size in itertools.product((1, 3), ((48, 60), (480, 333))):
        ran = session.run(None, {"input": rng.normal(size=(batch, 3, side, side)).astype(np.float32)})
        # Random weights give nearly equal logits and masks of one sign.
        outputs = {name: (one + rng.normal(0, (0 if name == "dets" else 3), one.shape)).astype(np.float32)
                   for name, one in zip(names, ran, strict=True)}  # fmt: skip
        outputs["dets"] *= rng.uniform(0.5, 1.5, outputs["dets"].shape).astype(np.float32)  # over the edge, too
        given = {
            f"pred_{name}": torch.tensor(one)
            for name, one in zip(("boxes", "logits", "masks"), outputs.values(), strict=False)
        }
        given["pred_logits"] = given["pred_logits"][..., : classes + (classes == 90)]
        expected = process.PostProcess(num_select=30)(given, torch.tensor([size] * batch))
        for own, theirs in zip(found.decode(outputs, ALL), expected, strict=True):
            restored = found.restore(own, find_geometry(*size, transform))
            assert own.labels.tolist() == theirs["labels"].tolist()
            np.testing.assert_allclose(own.scores, theirs["scores"], rtol=1e-5)
            np.testing.assert_allclose(restored.boxes, theirs["boxes"], atol=1e-3)
            if isinstance(restored.extra, Masks):
                decoded = np.stack([mask.decode(one) for one in restored.extra.encoded()])
                assert (decoded != theirs["masks"][:, 0].numpy()).mean() < 1e-4
