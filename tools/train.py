"""What the simulator runs while a build with a profile watches it (`make pgo`): the cases of
`polypath bench` but the largest, and one connection under each algorithm. Only the native module is
loaded, because nothing else is counted.
"""

import importlib.util
import sys
import types

spec = importlib.util.find_spec("polypath")
if spec is None or spec.submodule_search_locations is None:
    sys.exit("tools/train.py: polypath is not installed here; maturin calls this file, see make pgo")
package = types.ModuleType("polypath")
package.__path__ = list(spec.submodule_search_locations)
sys.modules["polypath"] = package

native = importlib.import_module("polypath._native")
for case in native.bench_cases():
    # Ten thousand connections run the same code as a hundred, and take long while every branch is
    # counted.
    if case != "mptcp-10000x2":
        native.bench_case(case)
for algorithm, *_ in native.algorithms():
    native.bench_algorithm(algorithm)
