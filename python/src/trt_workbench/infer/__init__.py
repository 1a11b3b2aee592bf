"""`infer-engine`: a plan or a model on arrays, its outputs checked and its calls measured."""
