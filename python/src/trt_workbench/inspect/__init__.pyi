from .tables import print_manifest as print_manifest
