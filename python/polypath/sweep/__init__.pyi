from ._abstract import Place, State
from ._chunks import weight
from ._dask import DaskPlace
from ._find import LOCAL, check_place, find_place
from ._finished import Failed, Fault, Finished, files_of, is_name, is_sealed, parquet_writer, without_seal

__all__ = [
    "LOCAL",
    "DaskPlace",
    "Failed",
    "Fault",
    "Finished",
    "Place",
    "State",
    "check_place",
    "files_of",
    "find_place",
    "is_name",
    "is_sealed",
    "parquet_writer",
    "weight",
    "without_seal",
]
