"""`infer-engine`: a plan or a model on arrays, its outputs checked and its calls measured.

In: `run.infer` of an `InferRequest`. Out: outputs as .npz, `metrics.json`, times.

Engines are measured by the core, which follows trtexec's method (`native.py`), other sessions by single calls
(`run.py`).
"""
