"""The kernel's real devices beside ours in one program, in the lab's guest: unmodified programs on
our libraries. One boot."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

import hosts
from guest_limits import BOOT_LIMIT_S, BUILD_LIMIT_S, GUEST_LIMIT_S
from programs import compiled

STEPS = """
rdma_device rxe
real() { env LD_LIBRARY_PATH=/share/lib VERBENA_REAL_DEVICES=1 "$@"; }
real ibv_devices >devices
real ibv_devinfo -v -d rxe0 >devinfo
ibv_devinfo -v -d rxe0 >devinfo.theirs
real ibv_rc_pingpong -d rxe0 -g 1 -n 50 -c -e >server 2>&1 &
until ss -Hltn | grep -q :18515; do sleep 0.1; done
real ibv_rc_pingpong -d rxe0 -g 1 -n 50 -c -e 127.0.0.1 >client 2>&1
wait
real ./both_move verbena0 0 rxe0 1 >moved
real rping -c -a 10.7.0.2 -C 1 >rping 2>&1
for library in /share/lib ''; do
  (cd /opt/rdma-tests/tests && env LD_LIBRARY_PATH=$library VERBENA_REAL_DEVICES=1 python3 \
    run_tests.py --dev rxe0 --gid 1 -v tests.test_qp 2>&1) |
    sed -n 's/ \\.\\.\\. / /p' >"pyverbs${library:+.ours}"
done
"""


def copy_libraries(folder) -> None:
    """Ours, and what they need and the guest has not."""
    folder.mkdir(parents=True)
    for name in ("libibverbs.so.1", "librdmacm.so.1"):
        shutil.copy(hosts.LIBRARIES / name, folder)
    needed = subprocess.run(["ldd", str(hosts.LIBRARIES / "libibverbs.so.1")], capture_output=True,
                            text=True, check=True).stdout
    isal = re.search(r"=> (\S*/libisal\.so\S*)", needed)
    assert isal, needed
    shutil.copy(isal[1], folder)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What the programs of the guest have said, by their names."""
    directory = tmp_path_factory.mktemp("lab-real")
    host = hosts.Host(directory)
    host.verbena_command("lab", "build", timeout_s=BUILD_LIMIT_S).succeed()
    share = directory / "share"
    copy_libraries(share / "lib")
    shutil.copy(compiled("both_move"), share)
    program = host.verbena_command("lab", "run", "--share", str(share), "--timeout",
                                   f"{GUEST_LIMIT_S:.0f}", "--", STEPS,
                                   timeout_s=BOOT_LIMIT_S + GUEST_LIMIT_S)
    program.succeed()
    yield {path.name: path.read_text() for path in share.iterdir() if path.is_file()
           and path.name != "both_move"}
    host.close()


def test_both_are_listed_and_the_real_one_tells_what_it_always_does(results):
    assert re.findall(r"^ +(\w+0) ", results["devices"], re.MULTILINE) == ["verbena0", "rxe0"]
    assert "hca_id:\trxe0" in results["devinfo"]
    assert results["devinfo"] == results["devinfo.theirs"]


def test_two_programs_talk_by_the_real_device(results):
    assert "50 iters" in results["client"] and "50 iters" in results["server"], results["client"]


def test_one_program_moves_data_by_both(results):
    assert results["moved"] == "verbena0 rxe0 moved\n"


def test_the_suite_of_pyverbs_has_the_same_outcome_by_either_library(results):
    outcome = results["pyverbs.ours"].splitlines()
    assert outcome == results["pyverbs"].splitlines()
    assert sum(line.endswith(" ok") for line in outcome) > 15, outcome


def test_the_connection_manager_says_that_it_does_not_serve_it(results):
    assert "10.7.0.2 is an address of rxe0, a real device" in results["rping"]
