"""Every RDMA program and library that Debian installs beside us loads with our libraries: all its
symbols resolve at once, private ones of rdma-core included."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

import hosts

# Packages whose programs link to libibverbs or librdmacm, directly or through a provider library.
# ./dev test installs them.
PACKAGES = ("ibverbs-utils", "ibverbs-providers", "rdmacm-utils", "perftest", "qperf", "libfabric1",
            "libucx0", "fio", "librpma0", "libiscsi7", "libopenmpi3", "libgloo0",
            "qemu-system-x86")
# Tested where somebody installed them, and why ./dev test doesn't.
OPTIONAL_PACKAGES = {
    "ceph-osd": "it takes 211 MB",
    "tgt": "its installation starts a daemon that listens to the network",
}


def elf_files(package: str) -> list[str]:
    """The programs and libraries of an installed package that link to one of our two."""
    listing = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False)
    found = []
    for name in listing.stdout.splitlines():
        path = pathlib.Path(name)
        if path.is_symlink() or not path.is_file():
            continue
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        dynamic = subprocess.run(["objdump", "-p", name], capture_output=True, text=True,
                                 check=False).stdout
        if "libibverbs.so.1" in dynamic or "librdmacm.so.1" in dynamic:
            found.append(name)
    return found


def unresolved(printed: str) -> set[str]:
    """What `ldd -r` can't find: libraries, symbols, versions of symbols. A plugin's own host isn't
    there, so not all of it is to do with us."""
    return {line.strip().split("\t")[0] for line in printed.splitlines()
            if "undefined symbol" in line or "not found" in line or "not defined" in line}


def check_files_resolve(host, package: str) -> None:
    files = elf_files(package)
    assert files, f"{package} is not installed"
    for name in files:
        real = host.run_bare("ldd", "-r", name).wait()
        ours = host.run_bare("ldd", "-r", name, variables={
            "LD_LIBRARY_PATH": str(hosts.LIBRARIES)}).succeed()
        printed = ours.out + ours.err
        assert f"{hosts.LIBRARIES}/" in printed, ours.report()
        assert unresolved(printed) <= unresolved(real.out + real.err), ours.report()


@pytest.mark.parametrize("package", PACKAGES)
def test_all_files_of_a_package_resolve(host, package):
    check_files_resolve(host, package)


@pytest.mark.parametrize("package", OPTIONAL_PACKAGES)
def test_all_files_of_an_optional_package_resolve(host, package):
    if not elf_files(package):
        pytest.skip(f"{package} is not installed: {OPTIONAL_PACKAGES[package]}")
    check_files_resolve(host, package)


@pytest.mark.parametrize("printed, symbols", [
    ("undefined symbol: ibv_x\t(/usr/lib/a.so)\n", {"undefined symbol: ibv_x"}),
    ("\tlibibverbs.so.1 => not found\n", {"libibverbs.so.1 => not found"}),
    ("./a: libibverbs.so.1: version `IBVERBS_9' not found (required by ./a)\n",
     {"./a: libibverbs.so.1: version `IBVERBS_9' not found (required by ./a)"}),
    ("symbol ibv_x, version IBVERBS_1.1 not defined in file libibverbs.so.1\t(./a)\n",
     {"symbol ibv_x, version IBVERBS_1.1 not defined in file libibverbs.so.1"}),
    ("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n", set()),
])
def test_what_ldd_complains_of_is_seen(printed, symbols):
    assert unresolved(printed) == symbols


def test_programs_start_when_all_symbols_are_bound_at_once(host):
    """LD_BIND_NOW, and a program that only prints its version: the loader has done its work."""
    for tool in ("ib_write_bw", "ib_send_lat"):
        assert shutil.which(tool)
        host.run_bare(tool, "--version", variables={
            "LD_LIBRARY_PATH": str(hosts.LIBRARIES), "LD_BIND_NOW": "1"}).wait()
        version = host.programs[-1]
        assert "Version" in version.out + version.err, version.report()
