"""What unmodified programs see of the device: ibv_devices, ibv_devinfo."""

from __future__ import annotations

import pathlib

from hosts import Host

GUID = "0200:00ff:fe12:3456"


def listed_devices(host: Host, **how) -> dict[str, str]:
    """What ibv_devices prints: names and GUIDs."""
    program = host.run("ibv_devices", **how).succeed()
    lines = program.out.splitlines()
    assert lines[0].split() == ["device", "node", "GUID"], program.report()
    return dict(line.split() for line in lines[2:])


def test_there_is_one_device_by_default(host):
    assert list(listed_devices(host)) == ["verbena0"]


def test_name_and_guid_are_options(host):
    devices = listed_devices(host, options=["--device", "mlx5_0", "--guid", GUID])
    assert devices == {"mlx5_0": GUID.replace(":", "")}


def test_the_guid_is_the_same_each_time_and_its_own_for_each_name(host):
    first = listed_devices(host)["verbena0"]
    assert listed_devices(host)["verbena0"] == first
    assert listed_devices(host, options=["--device", "other"])["other"] != first


def test_a_file_configures_several_devices(host):
    config = host.logs / "devices.toml"
    config.write_text("""
        [[device]]
        name = "left"
        guid = "0200:0000:0000:0001"
        [[device]]
        name = "right"
        guid = "0200:0000:0000:0002"
        mtu = 1024
        """)
    options = ["--config", str(config)]
    assert listed_devices(host, options=options) == {
        "left": "0200000000000001", "right": "0200000000000002"}
    right = host.run("ibv_devinfo", "-d", "right", options=options).succeed()
    assert "active_mtu:\t\t1024 (3)" in right.out, right.report()


def test_an_unknown_device_is_not_found(host):
    program = host.run("ibv_devinfo", "-d", "mlx5_7")
    assert program.status != 0
    assert "IB device 'mlx5_7' wasn't found" in program.err, program.report()


def test_devinfo_tells_everything(host):
    """The golden text, devinfo.txt: what a program can ask of the device. A value that changes must
    change there, on purpose."""
    program = host.run("ibv_devinfo", "-v", options=["--guid", GUID]).succeed()
    golden = pathlib.Path(__file__).with_name("devinfo.txt").read_text(encoding="utf-8")
    assert program.out.expandtabs().splitlines() == golden.splitlines(), program.report()
