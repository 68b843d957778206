"""The `verbena` command itself: help, version, mistakes on the command line, and what `run` says
before a program starts."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import pty
import shutil
import subprocess

import pytest

import hosts

NOBODY = 65534


def test_version(host):
    text = host.verbena_command("version").succeed().out
    name, version = text.split()
    assert name == "verbena" and version[0].isdigit()
    assert json.loads(host.verbena_command("version", "--json").succeed().out) == {
        "name": name, "version": version}


def test_help_tells_all_commands_and_all_options(host):
    text = host.verbena_command("--help").succeed().out
    for command in ("run", "devices", "dump", "version"):
        assert f"\n  {command} " in text
        assert host.verbena_command(command, "--help").succeed().out
    run = host.verbena_command("run", "--help").succeed().out
    for word in ("--config", "--device", "--address", "--mtu", "--guid", "--capture",
                 "VERBENA_CONFIG", "VERBENA_MTU", "127", "FIFO"):
        assert word in run


@pytest.mark.parametrize("arguments, error", [
    ([], "a subcommand is required"),
    (["dmp"], "there is no command dmp. did you mean dump?"),
    (["xyzzy"], "there is no command xyzzy."),
    (["dump"], "file is required"),
    (["dump", "--jsn", "x"], "--jsn. did you mean --json?"),
    (["dump", "-n", "x", "y"], "x"),
    (["run", "--mut=256", "--", "true"], "did you mean --mtu?"),
    (["run"], "no command to run"),
    (["run", "--"], "no command to run"),
    (["run", "ibv_devinfo"], "put -- before the command"),
])
def test_mistakes_are_told_with_exit_status_2(host, arguments, error):
    program = host.verbena_command(*arguments)
    assert (program.status, program.out) == (2, ""), program.report()
    assert program.err.startswith("verbena: ")
    assert error in program.err.lower()


def test_the_commands_own_words_are_not_ours(host):
    program = host.run("echo", "--help", "dump", "--", "-v")
    assert (program.status, program.out) == (0, "--help dump -- -v\n"), program.report()


def test_the_exit_status_is_the_commands(host):
    assert host.run("sh", "-c", "exit 42").status == 42


def test_a_command_that_does_not_exist(host):
    program = host.run("no-such-command")
    assert (program.status, program.err) == (127, "verbena: no-such-command: command not found\n")


def test_a_command_that_cannot_be_executed(host, tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    program = host.run(str(path))
    assert program.status == 126
    assert program.err == f"verbena: {path}: can't be executed: Permission denied\n"


@pytest.mark.parametrize("options, words", [
    (["--mtu", "1000"], ["--mtu: ", "1000", "256, 512, 1024, 2048"]),
    (["--address", "192.0.2.1"], ["192.0.2.1"]),
    (["--interface", "nosuch0"], ["nosuch0"]),
    (["--config", "/no/such/file.toml"], ["/no/such/file.toml", "No such file"]),
    (["--capture", "/"], ["/", "Is a directory"]),
    (["--capture", "/no/such/directory/x.pcapng"], ["/no/such/directory/x.pcapng"]),
])
def test_nothing_is_run_if_an_option_makes_no_sense(host, options, words):
    program = host.run("echo", "ran", options=options)
    assert (program.status, program.out) == (2, ""), program.report()
    for word in words:
        assert word in program.err


def test_a_capture_that_is_being_written_is_not_taken_away(host, tmp_path):
    path = tmp_path / "a.pcapng"
    with open(path, "wb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        writer.write(b"precious")
        writer.flush()
        program = host.run("true", options=["--capture", str(path)])
        assert program.status == 2
        assert "a running program writes its capture there" in program.err
    assert path.read_bytes() == b"precious"


def test_a_capture_does_not_go_to_a_terminal(host):
    ours, theirs = pty.openpty()
    try:
        result = subprocess.run([hosts.VERBENA, "run", "--capture", "-", "--", "true"],
                                stdout=theirs, stderr=subprocess.PIPE, text=True, check=False,
                                env=os.environ | host.variables)
    finally:
        os.close(theirs)
        os.close(ours)
    assert result.returncode == 2
    assert "terminal" in result.stderr


def test_a_program_that_gains_privileges_is_warned_of(host, tmp_path):
    path = pathlib.Path(shutil.which("su"))
    if os.geteuid() == 0:
        # su gives root nothing new; a program of another user's does.
        path = tmp_path / "true"
        shutil.copy(shutil.which("true"), path)
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o4755)
    program = host.run(str(path), "--version").succeed()
    assert f"{path} gains privileges" in program.err
    assert "gains privileges" not in host.run("true").succeed().err


def test_the_environment_reaches_the_command(host):
    program = host.run("sh", "-c", 'echo "$LD_LIBRARY_PATH $VERBENA_MTU"',
                       options=["--mtu", "1024"], variables={"LD_LIBRARY_PATH": "/before"})
    assert program.succeed().out == f"{hosts.LIBRARIES}:/before 1024\n"


def test_devices_shows_the_configuration(host):
    options = ["--device", "mlx5_7", "--guid", "0200:00ff:fe12:3456", "--mtu", "2048"]
    device, = json.loads(host.verbena_command("devices", "--json", *options).succeed().out)
    assert (device["name"], device["guid"], device["mtu"]) == (
        "mlx5_7", "0200:00ff:fe12:3456", 2048)
    addresses = ["0000:0000:0000:0000:0000:ffff:7f00:0001",
                 "fe80:0000:0000:0000:0000:7fff:fe00:0001"]
    assert [(row["index"], row["gid"], row["type"]) for row in device["gids"]] == [
        (0, addresses[0], "RoCE v2"), (1, addresses[1], "RoCE v2"),
        (2, addresses[0], "RoCE v1"), (3, addresses[1], "RoCE v1")]
    assert device["fabric"] == str(host.fabric)
    assert device["members"] == []
    text = host.verbena_command("devices", *options).succeed().out
    for word in ("mlx5_7", "0200:00ff:fe12:3456", "2048", "::ffff:127.0.0.1", "RoCE v2",
                 str(host.fabric)):
        assert word in text


def test_devices_shows_who_is_in_the_fabric(host):
    server, _ = host.start_server("ibv_rc_pingpong", "-g", "0")
    device, = json.loads(host.verbena_command("devices", "--json").succeed().out)
    assert device["members"] == [{"pid": server.pid, "device": "verbena0"}]


def test_devices_tells_a_bad_configuration(host, tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("[[device]]\nnmae = 'x'\n")
    program = host.verbena_command("devices", "--config", str(path))
    assert (program.status, program.out) == (2, "")
    assert f"{path}:2:" in program.err
