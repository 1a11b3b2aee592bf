"""`upgrade`: whether models are as correct, as good and as fast in another stack as in the one in use.

In: `run.upgrade`. Out: `document.py`: a verdict for each model, with what differs.

Every step is a command of ours in a process of the stack (`core/stack.py`): `verify --record` in the old one keeps
inputs and expected outputs, `verify --reference` compares the new one with them at the same shapes, `eval-vision`
scores both, and `bench` times them in turns. Nothing is compared here that those commands compare differently.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
