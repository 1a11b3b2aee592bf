from .cards import TIME_LIMIT_S as TIME_LIMIT_S
from .cards import architectures as architectures
from .rtx import SERVED as SERVED
from .rtx import require_compiler as require_compiler
from .run import check_targets as check_targets
