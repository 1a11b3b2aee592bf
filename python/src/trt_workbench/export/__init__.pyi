from .figures import FOLLOWED as FOLLOWED
from .figures import RunFigure as RunFigure
from .figures import figures_of as figures_of
