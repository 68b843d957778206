"""Every RDMA program and library that Debian installs beside us loads with our libraries: all its
symbols resolve at once, private ones of rdma-core included."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

import hosts

# Packages whose programs link to libibverbs or librdmacm, directly or through a provider library.
PACKAGES = ("ibverbs-utils", "ibverbs-providers", "rdmacm-utils", "perftest", "qperf", "librdmacm1",
            "libfabric1", "libfabric-bin", "libucx0", "ucx-utils", "fio", "librpma0", "libiscsi7",
            "libopenmpi3", "libgloo0", "tgt", "ceph-osd", "qemu-system-x86")


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
            # The real librdmacm is what ours takes the place of.
            if path.name.startswith("librdmacm.so"):
                continue
            found.append(name)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_all_files_of_a_package_resolve(host, package):
    files = elf_files(package)
    if not files:
        pytest.skip(f"{package} is not installed")
    for name in files:
        program = host.run_bare("ldd", "-r", name, variables={
            "LD_LIBRARY_PATH": str(hosts.LIBRARIES)}).succeed()
        printed = program.out + program.err
        assert f"{hosts.LIBRARIES}/" in printed, program.report()
        assert "undefined symbol" not in printed and "not found" not in printed, program.report()


def test_programs_start_when_all_symbols_are_bound_at_once(host):
    """LD_BIND_NOW, and a program that only prints its version: the loader has done its work."""
    for tool in ("ib_write_bw", "ib_send_lat"):
        assert shutil.which(tool)
        host.run_bare(tool, "--version", variables={
            "LD_LIBRARY_PATH": str(hosts.LIBRARIES), "LD_BIND_NOW": "1"}).wait()
        version = host.programs[-1]
        assert "Version" in version.out + version.err, version.report()
