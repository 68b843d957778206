"""Real devices beside ours in one process. The host of a test has none, so a small library stands
for the host's libibverbs, with a device and its provider; test_lab_real.py has the kernel's."""

from __future__ import annotations

import functools
import json

import pytest

import hosts
import programs
from rdmacm import connect
from test_devices import listed_devices

FAKE_GUID = "000000000000fa4e"


@functools.cache
def fake_library() -> dict[str, str]:
    """The variables that make the fake library the host's."""
    symbols = programs.SOURCES / "fake_libibverbs.map"
    library = programs.shared_library("fake_libibverbs", "libibverbs.so.1", "-ldl",
                                      f"-Wl,--version-script={symbols}")
    provider = programs.shared_library("fake_provider", "libfake-rdmav34.so", library)
    return {"VERBENA_REAL_LIBIBVERBS": library, "FAKE_PROVIDER": provider}


def wanted() -> dict[str, str]:
    return fake_library() | {"VERBENA_REAL_DEVICES": "1"}


def test_both_kinds_are_listed_ours_first(host):
    devices = listed_devices(host, variables=wanted())
    assert list(devices) == ["verbena0", "fake0"]
    assert devices["fake0"] == FAKE_GUID


def test_without_the_variable_nothing_is_loaded(host):
    program = host.run("ibv_devices", variables=fake_library()).succeed()
    assert "verbena0" in program.out and "fake0" not in program.out, program.report()
    assert program.err == "", program.report()
    mapped = host.run_bare("env", "LD_DEBUG=files", f"LD_LIBRARY_PATH={hosts.LIBRARIES}",
                           "ibv_devices", variables=fake_library()).succeed()
    assert "fake_libibverbs/" not in mapped.err, mapped.report()


@pytest.mark.parametrize("way", ["option", "file"])
def test_an_option_and_the_configuration_ask_for_them_too(host, way):
    library, provider = fake_library().values()
    config = host.logs / "devices.toml"
    config.write_text(f'real_devices = true\nreal_libibverbs = "{library}"\n[[device]]\n')
    options = (["--real-devices", "--real-libibverbs", library] if way == "option"
               else ["--config", str(config)])
    devices = listed_devices(host, options=options, variables={"FAKE_PROVIDER": provider})
    assert list(devices) == ["verbena0", "fake0"]


def test_each_object_gets_to_its_own_library(host):
    """The provider binds to ours, and its calls arrive at the fake one, arguments and all; what
    belongs to ours stays there, even when its device has been closed and foreign contexts have
    taken memory since."""
    program = host.run(programs.compiled("two_libraries"), "verbena0", "fake0",
                       variables=wanted()).succeed()
    assert program.out == "both\n", program.report()
    said = program.err.splitlines()
    assert said.count("fake: provider fake") == 1, program.report()
    # By itself the library sees its own list: it isn't bound to ours.
    assert "fake: fork_init, of 1" in said, program.report()
    assert said.count("fake: opens fake0") == 65 == said.count("fake: closes fake0")
    assert said.count("fake: command 12345678") == 1, program.report()
    assert said.count("fake: frees a PD of fake0") == 1, program.report()
    assert "fake: 3 events of fake0" in said, program.report()
    # The list of ours holds the other's as long as the program has it.
    assert said[-1] != "" and "fake: 0 lists" in said and "fake: 1 lists" not in said


def test_a_provider_that_the_program_has_linked_is_found(host):
    """Its constructor runs before anybody knows that the library will be loaded."""
    _, provider = fake_library().values()
    variables = wanted() | {"LD_PRELOAD": provider, "FAKE_PROVIDER": None}
    program = host.run_bare("ibv_devices", variables=variables | {
        "LD_LIBRARY_PATH": str(hosts.LIBRARIES)}).succeed()
    assert "fake0" in program.out and "fake: provider fake" in program.err, program.report()


def test_our_device_works_beside_them(host):
    pair = host.pair("ibv_rc_pingpong", "-g", "0", "-c", "-e", "-n", "100", variables=wanted())
    assert "100 iters" in pair.client.out, pair.report()


def test_the_connection_manager_serves_ours_as_ever(host):
    port = str(host.free_port())
    server = host.start("rping", "-s", "-a", "127.0.0.1", "-p", port, "-C", "3",
                        variables=wanted())
    client = connect(host, server, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "3",
                     variables=wanted())
    client.succeed()
    server.wait().succeed()


@pytest.mark.parametrize("role", ["-s", "-c"])
def test_the_connection_manager_says_whose_address_it_does_not_serve(host, role):
    """127.0.0.7 leads to our device, unless it is the address of a real one."""
    program = host.run("rping", role, "-a", "127.0.0.7", "-C", "1", variables=wanted())
    assert program.status != 0, program.report()
    assert "127.0.0.7 is an address of fake0, a real device" in program.err, program.report()


def test_the_connection_manager_opens_them_once_even_without_one_of_ours(host):
    """Ours can't be opened, and is tried again at each call; hardware shall not be."""
    program = host.run("rping", "-c", "-a", "127.0.0.7", "-C", "1",
                       options=["--link", "tap:nosuch0", "--address", "10.7.0.1/24"],
                       variables=wanted())
    assert program.status != 0, program.report()
    assert program.err.count("fake: opens fake0") == 1, program.report()


@pytest.mark.parametrize(("library", "words"), [
    ("/nonexistent/libibverbs.so.1", "isn't there, or is ours"),
    (str(hosts.LIBRARIES / "libibverbs.so.1"), "isn't there, or is ours"),
    ("/lib/x86_64-linux-gnu/libc.so.6", "its interface to providers isn't IBVERBS_PRIVATE_34"),
    ("/etc/passwd", "can't be loaded"),
])
def test_a_library_that_is_none_is_told_of_once_and_ours_work(host, library, words):
    program = host.run("ibv_devinfo", options=["--real-devices", "--real-libibverbs", library])
    program.succeed()
    assert program.err.count("verbena: no real devices: ") == 1, program.report()
    assert words in program.err and "verbena0" in program.out, program.report()


def test_two_devices_of_one_name_are_told_of(host):
    program = host.run("ibv_devinfo", "-d", "fake0", options=["--device", "fake0"],
                       variables=wanted()).succeed()
    assert program.err.count("fake0 is the name of a real device as well") == 1, program.report()
    assert "board_id" in program.out or "phys_port_cnt:\t\t\t1" in program.out, program.report()


def test_a_wrong_value_is_refused(host):
    program = host.run("ibv_devices", variables={"VERBENA_REAL_DEVICES": "yes"})
    assert program.status == 2, program.report()
    assert "VERBENA_REAL_DEVICES is \"yes\"; it may be 1 or 0" in program.err, program.report()


def test_a_view_that_would_hide_them_is_refused(host):
    options = ["--real-devices", "--view", "preload"]
    program = host.run("ibv_devices", options=options)
    assert program.status == 2 and "would hide" in program.err, program.report()


def test_programs_with_a_sanitizer_do_without(host):
    """AddressSanitizer ends programs that load a library the way that we need."""
    binary = str(host.logs / "sanitized")
    host.run_bare("gcc", "-fsanitize=address", str(programs.SOURCES / "two_libraries.c"), "-o",
                  binary, "-libverbs").succeed()
    program = host.run(binary, "verbena0", "fake0", variables=wanted())
    assert "no real devices: this program runs under a sanitizer" in program.err, program.report()
    assert program.status == 1 and "fake0:" in program.err, program.report()


def test_programs_with_an_allocator_of_their_own_do_without(host):
    source, library = host.logs / "allocator.c", host.logs / "allocator.so"
    source.write_text("void __libc_free(void*);\nvoid free(void* p) { __libc_free(p); }\n")
    host.run_bare("gcc", "-shared", "-fPIC", str(source), "-o", str(library)).succeed()
    program = host.run_bare("ibv_devices", variables=wanted() | {
        "LD_PRELOAD": str(library), "LD_LIBRARY_PATH": str(hosts.LIBRARIES)}).succeed()
    assert "a memory allocator of its own" in program.err, program.report()
    assert "verbena0" in program.out and "fake0" not in program.out, program.report()


def test_the_doctor_tells_what_a_program_would_find(host):
    def about_real(*options: str) -> list[str]:
        program = host.verbena_command("doctor", "--json", *options)
        return [finding["sentence"] for finding in json.loads(program.out)
                if finding["subject"] == "real"]

    assert about_real() == []
    library = fake_library()["VERBENA_REAL_LIBIBVERBS"]
    found, = about_real("--real-devices", "--real-libibverbs", library)
    assert "kernel has no RDMA devices" in found or library in found
    missing, = about_real("--real-devices", "--real-libibverbs", "/nonexistent/libibverbs.so.1")
    assert "no libibverbs.so.1 of the system: /nonexistent" in missing
