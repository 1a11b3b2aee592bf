from .contract.contract import Contract as Contract
from .contract.model_tensors import read_tensors as read_tensors
from .contract.parts import SymbolProfile as SymbolProfile
from .contract.reading import read_contract as read_contract
from .pool import PooledStream as PooledStream
from .pool import SavedStream as SavedStream
from .pool import StreamPool as StreamPool
from .rows import Pieces as Pieces
