"""Forms of data sets other than COCO's annotation file: each becomes what such a file holds, in memory.

In: a path that the user named. Out: `DataForm`, whose document goes to `vision/dataset.py`, the one reader.
`found.py` looks what there is, and `read.py` hands it to the module of its form: `yolo.py` reads `data.yaml` with the
labels that `yolo_labels.py` parses, `label_maps.py` maps of classes, `classes.py` images with one class each.
"""
