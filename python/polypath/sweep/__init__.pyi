from ._abstract import Backend, State
from ._chunks import weight
from ._dask import DaskBackend
from ._find import LOCAL, check_backend, find_backend
from ._finished import Failed, Fault, Finished, files_of, is_name, is_sealed, parquet_writer, without_seal

__all__ = [
    "LOCAL",
    "Backend",
    "DaskBackend",
    "Failed",
    "Fault",
    "Finished",
    "State",
    "check_backend",
    "files_of",
    "find_backend",
    "is_name",
    "is_sealed",
    "parquet_writer",
    "weight",
    "without_seal",
]
