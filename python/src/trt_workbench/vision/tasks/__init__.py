"""What vision models find: a file a task says what is read of annotations, how it is scored and how it is drawn.

`registry.py` knows them by the names that families give (`Family.task`), `base.py` says what a task has.
"""
