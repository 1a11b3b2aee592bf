"""`eval-llm` and `export-llm`: causal language models on every backend, compared with PyTorch in fp32.

In: `run.LlmEvaluation` of an `LlmRequest`; `export.export_llm`. Out: `document.LlmMetrics`; a folder of ONNX graphs.

    folder ─► tokens, windows ─┬► PyTorch in fp32 ────► logits ─┬► perplexity, KL, agreement ─► gate
                               └► backend:precision ──► logits ─┘

Every window runs on all backends before the next one, so that no logits are kept. Nothing is timed: bench does that.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
