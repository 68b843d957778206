"""The tables that Debian's perftest prints, read strictly."""

from __future__ import annotations

from typing import NamedTuple


class Bandwidth(NamedTuple):
    bytes: int
    iterations: int
    peak: float
    average: float
    messages_per_us: float


class Latency(NamedTuple):
    bytes: int
    iterations: int
    minimum_us: float
    maximum_us: float
    typical_us: float
    average_us: float
    deviation_us: float
    percentile_99_us: float
    percentile_99_9_us: float


# What -a runs: 2 bytes to 8 MiB, in powers of two.
ALL_SIZES = [2**power for power in range(1, 24)]


def header_of(output: str) -> str:
    """The line with the names of the columns."""
    return next((line for line in output.splitlines() if line.lstrip().startswith("#bytes")), "")


def rows_of(output: str, row_type):
    """The rows under the header, up to the line of dashes. A line that isn't a row is an error."""
    lines = output.splitlines()
    assert header_of(output), f"no table:\n{output}"
    rows = []
    for line in lines[lines.index(header_of(output)) + 1:]:
        if line.startswith("---"):
            break
        if not line.strip():
            continue
        cells = line.split()
        assert len(cells) == len(row_type._fields), f"not a row: {line!r} in\n{output}"
        rows.append(row_type(int(cells[0]), int(cells[1]), *map(float, cells[2:])))
    return rows


def check_bandwidth(output: str, sizes: list[int], iterations: int) -> list[Bandwidth]:
    """The table has these rows, and the values are possible."""
    rows = rows_of(output, Bandwidth)
    assert [row.bytes for row in rows] == sizes, output
    for row in rows:
        assert row.iterations == iterations, output
        # Rates of tiny messages are printed with two decimals: 0.00 is a possible peak, but an
        # average above the peak is not.
        assert 0 <= row.average <= row.peak * 1.01 + 0.01, output
        # All three are 0 where perftest couldn't tell how fast its clock runs: it measures that for
        # each row, and gives up if the machine is so busy that its samples are on no line.
        has_clock = row.peak > 0 or row.average > 0 or row.messages_per_us > 0
        assert row.messages_per_us > 0 or not has_clock, output
    return rows


def check_latency(output: str, sizes: list[int], iterations: int) -> list[Latency]:
    rows = rows_of(output, Latency)
    assert [row.bytes for row in rows] == sizes, output
    for row in rows:
        assert row.iterations == iterations, output
        assert 0 < row.minimum_us <= row.typical_us <= row.maximum_us, output
        assert row.minimum_us <= row.average_us <= row.maximum_us, output
    return rows
