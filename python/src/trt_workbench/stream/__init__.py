"""`eval-stream`, `check-contract` and `make-contract`: streaming models, chunk by chunk, by their contract.

In: `run.StreamEvaluation`; `check.run.check_contract`; `contract.draft.draft`. Out: `document.py`, `check/document.py`.

    contract ─► chunks ─┬► reference in closed loop ─────────────► outputs, state ─┬► differences ─► gates, verdict
                        └► lanes: precision x where the state is ► outputs, state ─┘

All lanes take a chunk before the next one is cut; only figures are kept. `pool.py` runs many streams.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
