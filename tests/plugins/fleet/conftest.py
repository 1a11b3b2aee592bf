"""The tiny detector and its images, on which commands are tested."""

from tests.cli.conftest import coco, make_coco  # noqa: F401 - fixtures
