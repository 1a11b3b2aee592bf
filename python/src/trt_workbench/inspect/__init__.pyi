from .engine_cli import shown_manifest as shown_manifest
