"""Rate limits, as programs see them. perftest's --rate_limit can't show it: PP is for raw packets,
SW is the tool's own, and with HW it ends by itself, though the rate it sets is told back."""

from __future__ import annotations

from programs import compiled

MEBIBYTE_BITS = 8 * 2**20


def test_a_queue_pair_is_never_faster_than_its_rate(host):
    """80 Mb/s: a mebibyte takes 105 ms, or longer on a busy machine. The first burst, some ten
    kilobytes, goes at full speed."""
    kbps = 80_000
    program = host.run(compiled("rated"), str(kbps)).succeed()
    assert float(program.out) >= 0.9 * MEBIBYTE_BITS / kbps, program.report()


def test_a_device_without_rate_limits_refuses_them(host):
    program = host.run(compiled("rated"), "80000", options=["--profile", "cx5"])
    assert program.status == 1 and "the rate" in program.err, program.report()
