"""Forms of data sets other than COCO's annotation file: each becomes what such a file holds, in memory.

In: a path that the user named. Out: `DataForm`, whose document goes to `vision/dataset.py`, the one reader.
`found.py` looks what there is; `yolo.py` reads `data.yaml` with the labels that `yolo_labels.py` parses; `classes.py`
reads images with one class each.
"""
