"""A detector family of another package: rows of a box and a score, for models with a single class."""

from dataclasses import dataclass

import numpy as np

from trt_workbench.vision.families.base import Detections, DoesNotFit, Family


@dataclass(frozen=True)
class Faces(Family):
    """x1, y1, x2, y2 in pixels of the input, then the score."""

    name = "faces"
    default_iou = 0.5  # boxes that overlap more are suppressed
    clips_boxes = True
    shape_text = "[N, K, 5] (x1, y1, x2, y2, score)"

    @classmethod
    def create(cls, output, facts):
        if len(output.shape) != 3 or output.shape[2] != 5:
            raise DoesNotFit(f"the shape is not {cls.shape_text}")
        return cls(output, 1, facts)

    def _candidates(self, image, conf):
        scores = image[:, 4]
        self.check_scores(scores)
        keep = scores >= conf
        return Detections(image[keep, :4], scores[keep], np.zeros(keep.sum(), np.int64))
