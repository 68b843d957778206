"""Automatic path migration through ibv_modify_qp(), on a device with two addresses."""

from __future__ import annotations

from programs import compiled


def test_both_ends_go_over_to_the_second_way(host, tmp_path):
    capture = tmp_path / "migration.pcapng"
    program = host.run(compiled("migration"), options=[
        "--address", "127.0.0.1,127.0.0.2", "--capture", str(capture)]).succeed()
    assert program.out.splitlines() == [
        "connected: MIGRATED on way 0 MIGRATED on way 0",
        "rearmed: REARM on way 0 REARM on way 0",
        "after a message: ARMED on way 0 ARMED on way 0",
        "event: path migrated at the first",
        "event: path migrated at the second",
        "after another: MIGRATED on way 1 MIGRATED on way 1"], program.report()

