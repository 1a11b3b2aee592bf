"""Detector families: how a model's output tensors become boxes, and which family a model is of."""

from trt_workbench.vision.families.base import DecodeSettings, Detections, Family
from trt_workbench.vision.families.classifier import Classifier
from trt_workbench.vision.families.detr import Detr
from trt_workbench.vision.families.detr_logits import DetrLogits
from trt_workbench.vision.families.detr_masks import DetrMasks
from trt_workbench.vision.families.detr_pixels import DetrPixels
from trt_workbench.vision.families.recognise import family_names, recognise
from trt_workbench.vision.families.yolov8 import YoloV8, YoloV8Keypoints, YoloV8Masks, YoloV8Rotated
from trt_workbench.vision.families.yolov10 import YoloV10, YoloV10Keypoints, YoloV10Masks, YoloV10Rotated
from trt_workbench.vision.families.yolox import YoloX

__all__ = [
    "Classifier",
    "DecodeSettings",
    "Detections",
    "Detr",
    "DetrLogits",
    "DetrMasks",
    "DetrPixels",
    "Family",
    "YoloV8",
    "YoloV8Keypoints",
    "YoloV8Masks",
    "YoloV8Rotated",
    "YoloV10",
    "YoloV10Keypoints",
    "YoloV10Masks",
    "YoloV10Rotated",
    "YoloX",
    "family_names",
    "recognise",
]
