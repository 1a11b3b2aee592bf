from .report import write_decision as write_decision
