"""One way to execute a model each, behind one protocol."""
