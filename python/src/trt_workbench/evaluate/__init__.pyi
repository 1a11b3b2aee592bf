from .cli import eval_coco as eval_coco
