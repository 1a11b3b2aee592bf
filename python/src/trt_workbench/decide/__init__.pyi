from .cli import decide as decide
from .document import BASELINE as BASELINE
from .document import Decision as Decision
from .report import write_decision as write_decision
