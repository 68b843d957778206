"""What all black-box tests share: a host with a fabric of its own for each test."""

from __future__ import annotations

import shutil
import signal

import pytest

import hosts

# Debian packages of the programs that the tests run unmodified.
PROGRAMS = {
    "ibverbs-utils": ["ibv_devices", "ibv_devinfo", "ibv_rc_pingpong", "ibv_srq_pingpong",
                      "ibv_xsrq_pingpong", "ibv_asyncwatch"],
    "rdmacm-utils": ["rping", "ucmatose", "udaddy", "rdma_server", "rdma_client", "cmtime",
                     "mckey", "rstream", "rcopy", "riostream", "udpong"],
    "perftest": ["ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw",
                 "ib_read_lat", "ib_atomic_bw", "ib_atomic_lat"],
    "qperf": ["qperf"],
    "libfabric-bin": ["fi_info", "fi_pingpong"],
    "tshark": ["tshark", "capinfos"],
    "util-linux": ["setpriv", "unshare"],
    "iproute2": ["ip", "tc"],
    "iperf3": ["iperf3"],
    "curl": ["curl"],
    "ucx-utils": ["ucx_info", "ucx_perftest"],
}


def pytest_sessionstart() -> None:
    """A missing program is an error, never a reason to skip. Programs inherit that a signal is
    ignored, as a shell ignores SIGINT for what it starts in the background: here it works."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    missing = sorted(package for package, programs in PROGRAMS.items()
                     if not all(shutil.which(program) for program in programs))
    if missing:
        pytest.exit(f"Debian packages are missing: {' '.join(missing)}", returncode=3)
    if not hosts.VERBENA.exists():
        pytest.exit(f"{hosts.VERBENA} doesn't exist; ./dev build makes it", returncode=3)


@pytest.fixture
def host(tmp_path):
    the_host = hosts.Host(tmp_path)
    yield the_host
    the_host.close()
