"""Forms of data sets other than COCO's annotation file: each becomes what such a file holds, in memory.

In: a path that the user named. Out: `Form`, whose document `vision/dataset.py`, the one reader of annotations, takes.
`found.py` looks what there is; `yolo.py` reads `data.yaml` with the labels that `yolo_labels.py` parses.
"""
