"""Names of what vision models find."""

from __future__ import annotations

from typing import Literal

TaskName = Literal["boxes", "masks", "keypoints", "rotated", "classes", "semantic"]
