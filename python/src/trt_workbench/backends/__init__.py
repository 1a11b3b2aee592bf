"""One way to execute a model each, behind one protocol (`base.py`); `registry.py` finds them by name."""
