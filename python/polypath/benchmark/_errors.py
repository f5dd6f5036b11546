"""The error that a person can mend."""

from polypath.errors import PolypathError


class BenchmarkError(PolypathError, ValueError):
    """The benchmark cannot run, or a result cannot be read; the text says what to write."""
