from .engine_cli import print_manifest as print_manifest
