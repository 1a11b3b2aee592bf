from .document import Upgrade as Upgrade
