from .document import Decision as Decision
from .report import write_decision as write_decision
