"""What every package may use, each concept in one place.

Errors, files and documents, arrays compared, formats, settings, run directories, statistics and worker processes. It
knows no model and no runtime.
"""
