from .steps import make_step as make_step
