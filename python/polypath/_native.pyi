"""The compiled module: converts types and errors, decides nothing (crates/py)."""

from collections.abc import Sequence

Columns = dict[str, tuple[str, bytes]]

class CallerError(ValueError):
    """What was asked for cannot be. The sentence says what to write instead."""

    field: tuple[str, ...]
    """Where in what was asked for, from its root; empty where no single field is at fault."""

class PeerError(RuntimeError):
    """The other end of a network does not obey a standard."""

class MachineError(RuntimeError):
    """The machine lacks something, refuses something, or a program on it has a bug."""

def simulate(scenario: str) -> tuple[str, Columns, Columns, dict[str, bytes]]:
    """Simulates a scenario (JSON) and gives the outcome (JSON), the series of subflows, the series of links, and captures by file name.

    A series is a column's name -> its NumPy type and its bytes; a capture is a pcapng. Releases the interpreter while it runs.

    Raises CallerError with one sentence where the scenario is at fault, MachineError where the simulator is.
    """

def analyse_captures(files: Sequence[str], one_end: bool) -> str:
    """What captures say, as JSON (crates/capture/src/report.rs). Releases the interpreter while it reads.

    Raises CallerError if a file cannot be opened.
    """

def list_segments(files: Sequence[str]) -> list[tuple[int, int, tuple[str, int], tuple[str, int], str]]:
    """The TCP segments in captures (crates/capture/src/listing.rs): time in ns, file by its place among them, source, destination and
    what it says, without what each run draws by chance. Releases the interpreter while it reads.

    Raises CallerError if a file cannot be opened.
    """

def check(scenario: str, simulated: bool) -> tuple[list[str], str] | None:
    """What is wrong with a scenario (JSON): the field at fault, from the scenario's root, and a sentence; None: nothing.

    With `simulated`, also what only the simulator has no model of. Raises CallerError if the text is no scenario at all.
    """

def algorithms() -> list[tuple[str, bool, str, str, str, str, bool, bool]]:
    """Congestion-control algorithms by name: coupled over subflows, family, source, name of Linux's own, other names (with spaces),
    whether runs with other seeds differ by it alone, whether its packets say ECT(1).
    """

def abi_source() -> str:
    """C text to compile into the object of a congestion control: it asserts that the headers are those of this module."""

def object_contents(object: bytes) -> tuple[list[str], list[str], list[str]]:
    """Of an object file: variables that outlive a call, names of others, and what runs when it is loaded."""

def add_algorithm(object: str, name: str) -> None:
    """Makes the congestion control of this name in a shared object known, in place of one that was added under the same name.

    Raises CallerError with one sentence if the object lacks something or was compiled for another version.
    """

def add_scheduler(object: str, name: str) -> None:
    """The same for a scheduler."""

def compare_scheduler(object: str, name: str, seed: int) -> tuple[int, str | None]:
    """How often the scheduler of this name and what a shared object has under it, the same file in
    another build, were asked and chose alike, and where they first differ.
    """

def columns() -> list[tuple[str, str, str, str, float, Sequence[str], str]]:
    """Every counter and every column of a series that the engines hand on: its group (counters, rejections, series, link_series), the
    engines' name, the name of its column in the tables, the unit there ("" for a plain number), how much of the engines' unit is one of
    that, the counters of Linux whose sum it is, its meaning.
    """

def schedulers() -> list[tuple[str, str]]: ...
def mtu_searches() -> list[tuple[str, str]]: ...
def path_managers() -> list[tuple[str, str]]: ...
def kernels() -> list[tuple[str, str, int, int, int]]:
    """The kernels of the simulator: name, release, version of MPTCP, most subflows of a connection, bytes of a data segment's DSS."""

def version() -> str:
    """Release and fingerprint of the sources: equal versions, equal outcomes."""

def bench_cases() -> list[str]:
    """The cases by which the simulator's speed is judged."""

def bench_algorithm(name: str) -> tuple[int, int, int]:
    """As `bench_case`, the case by which algorithms are compared."""

def bench_case(name: str) -> tuple[int, int, int]:
    """Simulates a case: data packets delivered, events, and packets that came over a link, each link counted."""

def emulate(spec: str) -> None:
    """Builds the network of a specification (JSON, crates/emu/src/spec.rs) and carries its links until a signal ends it; Linux only.

    To be called by a process of its own. Raises MachineError with one sentence where the machine does not let it.
    """

def emulator_version() -> str:
    """Release and fingerprint of the sources of runs in real time; Linux only."""

def run_emulated(run: str) -> str:
    """Carries out a run (JSON, crates/emu/src/run.rs) over emulated links in real time; what came of it is JSON. Linux only.

    To be called by a process of its own, which a signal ends. Raises MachineError with one sentence where the machine does not let it.
    """

def bench_emulator(spec: str) -> str:
    """Measures the emulator beside what the machine can do without it; the figures are JSON (crates/emu/src/bench.rs)."""

def unname_namespace(name: str) -> None:
    """Takes the name of a network namespace away, if there is such a name."""

def bench_queue(sources: int, events: int) -> int:
    """Turns over the event queue alone; the result is there so that no work is optimised away."""

class Sockets:
    """The TCP sockets of the network namespace that the thread is in which makes this; Linux only. Raises OSError with a sentence."""

    def look(self) -> list[tuple[str, int, str, int, int, str, int, int | None, int, int, bytes]]:
        """All that neither listen nor wait out their time.

        Source, its port, destination, its port, state, congestion control, MPTCP's flags, token or None, MPTCP's number of this end's
        address and of the other's, and the kernel's tcp_info.
        """

def enter_network(file: str) -> None:
    """Moves the calling thread into the network namespace of a file, for good; Linux only. Raises OSError with a sentence."""
