"""What programs find in /sys/class/infiniband and /dev/infiniband under `verbena run --view`: those
that look there before they ask libibverbs find our devices, whatever way they look."""

from __future__ import annotations

import os
import subprocess

import pytest

VIEWS = ["auto", "preload", "userns"]


def permits_namespaces() -> bool:
    return subprocess.run(["unshare", "--user", "--mount", "true"], check=False,
                          capture_output=True).returncode == 0


@pytest.fixture(params=VIEWS)
def view(request):
    if request.param == "userns" and not permits_namespaces():
        pytest.skip("this system permits no user namespaces")
    return ["--view", request.param]


def test_scripts_find_the_device(host, view):
    script = """
        cd /sys/class/infiniband && ls -d verbena0 && cat verbena0/node_type
        cat verbena0/ports/1/gid_attrs/types/2
        cat /sys/class/infiniband/verbena0/ports/1/gid_attrs/ndevs/0
        cat /sys/class/infiniband_verbs/uverbs0/ibdev
        test -c /dev/infiniband/uverbs0 && test -r /dev/infiniband/uverbs0 &&
          test -w /dev/infiniband/uverbs0 && echo usable
        ls /dev/infiniband /sys/class/infiniband/verbena0/device/net
        find /sys/class/infiniband/verbena0/ports/1/pkeys -type f
        """
    program = host.run("bash", "-c", script, options=view).succeed()
    assert program.err == "", program.report()
    assert program.out.splitlines() == [
        "verbena0", "1: CA", "IB/RoCE v1", "lo", "verbena0", "usable", "/dev/infiniband:",
        "uverbs0", "", "/sys/class/infiniband/verbena0/device/net:", "lo",
        "/sys/class/infiniband/verbena0/ports/1/pkeys/0"], program.report()


PYTHON = """
import glob, os, pathlib
device = pathlib.Path("/sys/class/infiniband/verbena0")
print(device.is_dir(), os.access(device / "fw_ver", os.R_OK))
print((device / "fw_ver").read_text(), end="")
print(*sorted(entry.name for entry in os.scandir("/sys/class/infiniband_verbs")))
print(os.path.realpath("/sys/class/infiniband/verbena0/ports/1"))
print(*glob.glob("/sys/class/infiniband/*/ports/*/state"))
print(os.path.exists("/sys/class/infiniband/verbena1"), os.path.exists("/sys/class/net/lo"))
print(os.path.exists("/dev/null"), os.path.exists("/dev/shm"))
"""


def test_python_finds_the_device(host, view):
    program = host.run("/usr/bin/python3", "-c", PYTHON, options=view).succeed()
    assert program.out.splitlines() == [
        "True True", "1.0.0", "abi_version uverbs0", "/sys/class/infiniband/verbena0/ports/1",
        "/sys/class/infiniband/verbena0/ports/1/state", "False True", "True True"]


def test_files_are_those_of_the_configuration(host, view):
    config = host.logs / "devices.toml"
    config.write_text('[[device]]\nname = "mlx5_0"\nprofile = "cx5"\n[[device]]\nname = "rxe0"\n'
                      'profile = "rxe"\n')
    program = host.run("bash", "-c", "cd /sys/class/infiniband && ls && cat mlx5_0/board_id && "
                       "cat mlx5_0/ports/1/gid_attrs/types/0 rxe0/ports/1/gids/1023 && "
                       "cat ../infiniband_verbs/uverbs1/ibdev",
                       options=[*view, "--config", str(config)]).succeed()
    assert program.out.splitlines() == [
        "mlx5_0", "rxe0", "MT_0000000080", "IB/RoCE v1",
        "0000:0000:0000:0000:0000:0000:0000:0000", "rxe0"], program.report()


def test_the_user_and_the_fabric_are_the_same(host, view):
    """A program with a view talks to one without."""
    me = host.run("id", "-u", options=view).succeed()
    assert me.out.strip() == str(os.geteuid())
    pair = host.pair("ibv_rc_pingpong", "-g", "0", "-n", "50", client_how={"options": view},
                     server_how={"options": ["--view", "none"]})
    assert "50 iters in" in pair.client.out, pair.report()


def test_without_a_view_there_is_nothing(host):
    if os.path.exists("/sys/class/infiniband"):
        pytest.skip("this machine has RDMA devices of its own")
    program = host.run("test", "-e", "/sys/class/infiniband/verbena0", options=["--view", "none"])
    assert program.status == 1, program.report()
    environment = host.run("env", options=["--view", "none"]).succeed()
    assert "LD_PRELOAD" not in environment.out, environment.report()


def test_a_library_that_is_preloaded_already_stays(host):
    program = host.run("bash", "-c", "echo $LD_PRELOAD",
                       variables={"LD_PRELOAD": "/lib/x86_64-linux-gnu/libm.so.6"}).succeed()
    names = [os.path.basename(path) for path in program.out.strip().split(":")]
    assert names == ["libverbena_view.so", "libm.so.6"], program.report()


def test_a_program_with_address_sanitizer_runs(host):
    """Its library wants to be the first one, which a preloaded library is instead."""
    source = host.logs / "sanitized.c"
    source.write_text("#include <unistd.h>\n"
                      "int main(void) { return access(\"/sys/class/infiniband/verbena0\", 0); }\n")
    binary = str(host.logs / "sanitized")
    host.run_bare("gcc", "-fsanitize=address", str(source), "-o", binary).succeed()
    host.run(binary).succeed()
    options = host.run("bash", "-c", "echo $ASAN_OPTIONS",
                       variables={"ASAN_OPTIONS": "detect_leaks=0"}).succeed()
    assert options.out.strip().endswith(":detect_leaks=0"), options.report()


def test_namespaces_that_are_not_permitted_are_told(host):
    """Nothing is run, and the message says what to do instead; auto doesn't need them."""
    if not permits_namespaces():
        forbid = []
    else:
        forbid = ["unshare", "--user", "--map-root-user", "bash", "-c",
                  "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"", "bash"]
    refused = host.run_bare(*forbid, str(host.verbena), "run", "--view", "userns", "--", "echo",
                            "it runs")
    assert refused.status == 2 and "it runs" not in refused.out, refused.report()
    assert "permits no user namespaces" in refused.err, refused.report()
    assert "--view preload" in refused.err, refused.report()
    host.run_bare(*forbid, str(host.verbena), "run", "--", "ls",
                  "/sys/class/infiniband/verbena0").succeed()


def test_an_unknown_view_is_refused(host):
    program = host.run("true", options=["--view", "chroot"])
    assert program.status == 2, program.report()
    assert "auto, userns, preload or none" in program.err, program.report()
