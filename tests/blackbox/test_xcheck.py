"""`verbena xcheck`: what needs no guest of it. The judge is ours here, too: two of our devices must
agree with each other, and recordings of another one are compared as they should be."""

from __future__ import annotations

import fcntl
import json
import pathlib
import shutil
import signal
import socket
import xml.etree.ElementTree

import pytest

import hosts

CONFORMANCE = hosts.BUILD / "share" / "verbena" / "lab" / "conformance"


def xcheck(host, *arguments: str):
    return host.verbena_command("xcheck", *arguments)


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> list[dict]:
    """What the conformance program observes of our device by itself."""
    host = hosts.Host(tmp_path_factory.mktemp("recording"))
    program = host.run(str(CONFORMANCE), "alone", "--device", "verbena0").succeed()
    host.close()
    return [json.loads(line) for line in program.out.splitlines()]


def write(path, observations: list[dict]) -> str:
    path.write_text("".join(json.dumps(observation) + "\n" for observation in observations))
    return str(path)


def changed(observations: list[dict], case: str, step: str, field: str, value: str) -> list[dict]:
    """A copy in which one observation came out differently."""
    name = {"case": case, "step": step, "field": field}
    assert sum(name.items() <= one.items() for one in observations) == 1, name
    return [one | {"value": value} if name.items() <= one.items() else one
            for one in observations]


def test_our_device_does_what_the_program_expects(recording):
    """Everything arrives, whole; nothing is written beside it."""
    arrived = [one for one in recording if one["step"] == "memory" and one["field"] == "right"]
    assert len(arrived) > 50
    assert [one for one in arrived if one["value"] != "1"] == []
    beside = [one for one in recording if one["field"] == "behind it untouched"]
    assert [one for one in beside if one["value"] != "1"] == []


def test_two_recordings_of_one_device_are_the_same(host, tmp_path, recording):
    again = host.run(str(CONFORMANCE), "alone").succeed()
    (tmp_path / "b.json").write_text(again.out)
    program = xcheck(host, "--compare", write(tmp_path / "a.json", recording),
                     str(tmp_path / "b.json"))
    assert program.status == 0, program.report()
    assert "0 differ as they should, 0 differ" in program.out, program.report()


def test_a_known_difference_is_told_with_its_rule_and_others_fail(host, tmp_path, recording):
    ours = write(tmp_path / "ours.json", recording)
    known = changed(recording, "SEND, wrong local key", "requester", "completion",
                    "local QP operation error")
    program = xcheck(host, "--compare", ours, write(tmp_path / "known.json", known))
    assert program.status == 0, program.report()
    assert "A wrong local key is a local protection error" in program.out, program.report()

    unknown = changed(known, "RC SEND 1", "responder", "byte_len", "2")
    theirs = write(tmp_path / "unknown.json", unknown)
    program = xcheck(host, "--compare", ours, theirs)
    assert program.status == 1, program.report()
    assert "RC SEND 1: responder, byte_len: ours 1, theirs 2" in program.out, program.report()
    program = xcheck(host, "--compare", ours, theirs, "--json")
    told = json.loads(program.out)
    assert [len(told[name]) for name in ("accepted", "unexplained")] == [1, 1]


def test_ci_can_read_what_a_comparison_found(host, tmp_path, recording):
    """A test for each case; what is known to differ passes, what isn't fails with its words."""
    theirs = changed(recording, "RC SEND 1", "responder", "byte_len", "2")
    theirs = changed(theirs, "SEND, wrong local key", "requester", "completion",
                     "local QP operation error")
    junit = tmp_path / "junit.xml"
    program = xcheck(host, "--compare", write(tmp_path / "ours.json", recording),
                     write(tmp_path / "theirs.json", theirs), "--junit", str(junit))
    assert program.status == 1, program.report()
    suite = xml.etree.ElementTree.parse(junit).getroot()
    assert {case.get("name") for case in suite} == {one["case"] for one in recording}
    failures = {case.get("name"): case.find("failure") for case in suite
                if case.find("failure") is not None}
    assert set(failures) == {"RC SEND 1"} and suite.get("failures") == "1"
    assert failures["RC SEND 1"].get("message") == "responder, byte_len: ours 1, theirs 2"


def test_a_rule_explains_what_it_says_and_no_more(host, tmp_path, recording):
    """rxe's flag of a GRH may be there besides; that the one of the immediate is gone is no part of
    it."""
    name = ("RC SEND_IMM 1", "responder", "wc_flags")
    ours = write(tmp_path / "ours.json", recording)
    for flags, status in (("0x3", 0), ("0x1", 1)):
        theirs = write(tmp_path / "theirs.json", changed(recording, *name, flags))
        program = xcheck(host, "--compare", ours, theirs)
        assert program.status == status, program.report()


def test_the_rule_of_keys_that_nobody_has_explains_success_only(host, tmp_path, recording):
    name = ("SEND_INV of a key that nobody has", "requester", "completion")
    ours = write(tmp_path / "ours.json", recording)
    for value, status in (("success", 0), ("local protection error", 1)):
        theirs = write(tmp_path / "theirs.json", changed(recording, *name, value))
        program = xcheck(host, "--compare", ours, theirs)
        assert program.status == status, program.report()


def test_an_observation_that_one_side_lacks_is_a_difference(host, tmp_path, recording):
    program = xcheck(host, "--compare", write(tmp_path / "ours.json", recording),
                     write(tmp_path / "theirs.json", recording[1:]))
    assert program.status == 1, program.report()
    assert "theirs (not observed)" in program.out, program.report()


# --- The same on iWARP, where rdma_cm connects the device to itself


@pytest.fixture(scope="module")
def iwarp_recordings(tmp_path_factory) -> list[list[dict]]:
    """Of two runs."""
    recordings = []
    for _ in range(2):
        host = hosts.Host(tmp_path_factory.mktemp("iwarp"))
        program = host.run(str(CONFORMANCE), "alone", "--device", "verbena_iw0",
                           options=("--transport", "iwarp")).succeed()
        host.close()
        recordings.append([json.loads(line) for line in program.out.splitlines()])
    return recordings


def test_our_iwarp_device_does_what_the_program_expects(iwarp_recordings):
    """All that arrives does so whole, and what is refused is told to both ends."""
    for recording in iwarp_recordings:
        arrived = {one["case"]: one["value"] for one in recording
                   if one["step"] == "memory" and one["field"] == "right"}
        assert set(arrived.values()) == {"1"}
        assert {name.rpartition(" ")[0] for name in arrived} == {"RC SEND", "RC WRITE", "RC READ"}
        ends = {one["case"] for one in recording
                if one["field"] == "DISCONNECTED" and one["value"] == "1"}
        assert {"WRITE, wrong key", "READ, beyond the region", "SEND, longer than the receive",
                "SEND, no receive, no retry"} <= ends


def test_two_recordings_of_our_iwarp_device_are_the_same(host, tmp_path, iwarp_recordings):
    program = xcheck(host, "--compare", write(tmp_path / "a.json", iwarp_recordings[0]),
                     write(tmp_path / "b.json", iwarp_recordings[1]))
    assert program.status == 0, program.report()
    assert "0 differ as they should, 0 differ" in program.out, program.report()


def test_rules_of_siw_explain_nothing_on_roce(host, tmp_path, recording, iwarp_recordings):
    name = ("WRITE, wrong key", "requester", "state")
    for observations, status in ((iwarp_recordings[0], 0), (recording, 1)):
        program = xcheck(host, "--compare", write(tmp_path / "ours.json", observations),
                         write(tmp_path / "theirs.json", changed(observations, *name, "RESET")))
        assert program.status == status, program.report()


def test_rules_of_rxe_explain_nothing_on_iwarp(host, tmp_path, iwarp_recordings):
    theirs = changed(iwarp_recordings[0], "RC SEND 1", "responder", "wc_flags", "0x1")
    program = xcheck(host, "--compare", write(tmp_path / "ours.json", iwarp_recordings[0]),
                     write(tmp_path / "theirs.json", theirs))
    assert program.status == 1, program.report()


@pytest.mark.parametrize("address,status,words", [
    ("nowhere", 2, "--address nowhere is no IP address"),
    ("192.0.2.7", 1, "rdma_cm can't listen on 192.0.2.7 with verbena_iw0"),
])
def test_an_address_that_is_not_the_iwarp_device_s_is_refused(host, address, status, words):
    program = host.run(str(CONFORMANCE), "alone", "--address", address,
                       options=("--transport", "iwarp"))
    assert program.status == status and words in program.err, program.report()


# --- Files


@pytest.mark.parametrize("text", ["", "no JSON\n", '{"case": "a"}\n', "[" * 100000, "\0\xff\n"])
def test_a_file_that_is_no_recording_is_refused(host, tmp_path, recording, text):
    (tmp_path / "bad.json").write_text(text, encoding="latin-1")
    program = xcheck(host, "--compare", write(tmp_path / "ours.json", recording),
                     str(tmp_path / "bad.json"))
    assert program.status == 2, program.report()
    assert "bad.json" in program.err, program.report()


def test_two_of_our_devices_agree_in_all_and_ci_can_read_it(host, tmp_path):
    junit = tmp_path / "junit.xml"
    program = xcheck(host, "--against", "self", "--json", "--junit", str(junit))
    assert program.status == 0, program.report()
    cells = json.loads(program.out)["cells"]
    assert {cell["result"] for cell in cells} == {"agrees"}, program.report()
    assert {cell["initiator"] for cell in cells} == {"ours", "theirs"}
    assert len({cell["operation"] for cell in cells}) == 22
    assert {cell["way"] for cell in cells} == {"verbs", "cm"}
    suite = xml.etree.ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == (str(len(cells)), "0")


def test_the_path_mtu_and_the_operations_can_be_chosen(host):
    program = xcheck(host, "--against", "self", "--only", "RC WRITE", "--path-mtu", "1024")
    assert program.status == 0, program.report()
    lines = program.out.splitlines()
    assert lines[0].split()[3:] == ["0", "1", "64", "1023", "1024", "1025", "65536", "1048576"]
    names = [line[:20].strip() for line in lines[1:] if " by " not in line][:-1]
    assert set(names) == {"RC WRITE", "RC WRITE_IMM", "RC WRITE, wrong key"}


@pytest.mark.parametrize("options", [("--through", "cm"), ("--transport", "iwarp")])
def test_connections_may_be_made_by_rdma_cm(host, options):
    """iWARP has no other way. What it has not is told as such."""
    program = xcheck(host, "--against", "self", "--json", *options)
    assert program.status == 0, program.report()
    cells = json.loads(program.out)["cells"]
    assert {cell["way"] for cell in cells} == {"cm"}
    agree = {cell["operation"] for cell in cells if cell["result"] == "agrees"}
    assert {"RC SEND", "RC SEND_INV", "RC WRITE", "RC READ", "RC READ, wrong key", "CM connect",
            "CM disconnect", "CM reject"} <= agree, program.report()
    assert "differs" not in {cell["result"] for cell in cells}, program.report()


def test_both_ends_of_a_refused_request_are_told(host):
    program = xcheck(host, "--against", "self", "--only", "wrong key")
    assert program.status == 0, program.report()
    assert ("RC READ, wrong key by verbs, initiator ours, tells ours: remote access error; theirs: "
            "Work Request Flushed Error") in program.out, program.report()


def test_an_agent_on_another_host_is_named_by_its_address(host):
    """As for a real NIC elsewhere, but that elsewhere is here."""
    port = host.free_port()
    agent = host.start(str(CONFORMANCE), "agent", "--once", "--listen", f"127.0.0.1:{port}")
    program = xcheck(host, "--against", f"127.0.0.1:{port}", "--only", "RC READ")
    assert program.status == 0, program.report()
    assert "16 agree" in program.out, program.report()
    agent.succeed()


def test_an_agent_outlives_masters_that_hang_up(host):
    port = host.free_port()
    agent = host.start(str(CONFORMANCE), "agent", "--listen", f"{hosts.LOOPBACK}:{port}")
    host.wait_for_listener(agent, port)
    no_gid = "0" * 32
    lines = [f"verbena-conformance 3 1024 {no_gid}", "manager 0", "case 0 1 1024 1 0",
             f"at 0 0 {no_gid} 0 0", "ready 0"]
    # It may notice in each of its writes; most attempts hit one that a signal tells of.
    for _ in range(20):
        with socket.create_connection((hosts.LOOPBACK, port)) as master:
            master.sendall("".join(line + "\n" for line in lines).encode())
    program = xcheck(host, "--against", f"{hosts.LOOPBACK}:{port}", "--only", "RC READ")
    assert program.status == 0, program.report()
    assert agent.is_running(), agent.report()
    agent.kill()


def listening(host) -> str:
    found = json.loads(host.verbena_command("doctor", "--json").out)
    return "\n".join(item["sentence"] for item in found if item["subject"] == "listening")


@pytest.mark.parametrize("options,address", [((), "-"), (("--address", "127.0.0.1"), "127.0.0.1")])
def test_an_agents_device_listens_for_masters_only(host, options, address):
    """Who connects and doesn't greet makes nothing of it listen."""
    port, cm_port = host.free_port(), host.free_port()
    agent = host.start(str(CONFORMANCE), "agent", "--once", "--cm-port", str(cm_port), "--listen",
                       f"{hosts.LOOPBACK}:{port}", *options)
    host.wait_for_listener(agent, port)
    with socket.create_connection((hosts.LOOPBACK, port)) as someone:
        greeting = someone.makefile().readline()
        assert greeting.startswith("verbena-conformance "), greeting
        assert listening(host) == ""
        someone.sendall(greeting.encode())
        assert someone.makefile().readline() == f"manager {cm_port} {address}\n"
        assert f"TCP port {cm_port} " in listening(host)
    agent.succeed()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_and_leaves_nothing(host, tmp_path, number):
    place = tmp_path / "scratch"
    place.mkdir()
    program = host.start_bare(str(host.verbena), "xcheck", "--against", "self",
                              variables={"TMPDIR": str(place)})
    program.wait_until(lambda: list(place.glob("*/agent")), "running")
    program.send_signal(number)
    program.wait()
    assert program.status == -number, program.report()
    assert list(place.iterdir()) == []


def test_what_makes_no_sense_is_said(host):
    program = xcheck(host)
    assert program.status == 2 and "--against or --compare" in program.err, program.report()
    program = xcheck(host, "--against", "self", "--api")
    assert program.status == 2 and "--api is for rxe and siw" in program.err, program.report()
    program = xcheck(host, "--against", "rxe", "--tcp", "own")
    assert program.status == 2 and "--tcp is for what goes to siw" in program.err, program.report()
    for option in (("--only", "RC"), ("--ipv6",), ("--through", "cm"), ("--tcp", "own")):
        program = xcheck(host, "--against", "siw", "--api", *option)
        assert program.status == 2 and "excludes" in program.err, program.report()
    program = xcheck(host, "--against", "siw", "--ipv6")
    assert program.status == 2 and "unless --tcp own" in program.err, program.report()
    program = xcheck(host, "--against", "self", "--only", "RC GUESS")
    assert program.status == 1, program.report()
    assert 'no operation has "RC GUESS" in its name' in program.err, program.report()


def test_a_guest_that_runs_is_not_removed(host, tmp_path):
    host.variables["VERBENA_LAB"] = str(tmp_path)
    with open(tmp_path / "users", "w", encoding="ascii") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        program = host.start_bare(str(host.verbena), "lab", "clean")
        program.wait_until(lambda: "somebody runs the guest" in program.err, "waiting")
        assert program.is_running()
    program.succeed()


def is_over(pid: str) -> bool:
    """Gone, or left to be fetched by the first process, which not every container's does."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def test_what_a_build_has_started_ends_with_it(host, tmp_path):
    """A build of ours, so to speak: its script starts somebody who would go on for long."""
    tools = tmp_path / "share" / "verbena" / "lab"
    tools.mkdir(parents=True)
    verbena = tmp_path / "bin" / "verbena"
    verbena.parent.mkdir()
    shutil.copy(host.verbena, verbena)
    script = tools / "build_guest.sh"
    script.write_text("#!/bin/sh\nsleep 600 &\necho $! >$1/pid\nwait\n", encoding="ascii")
    script.chmod(0o755)
    place = tmp_path / "place"
    program = host.start_bare(str(verbena), "lab", "build",
                              variables={"VERBENA_LAB": str(place)})
    pid = place / "building" / "pid"
    program.wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"), "building")
    program.send_signal(signal.SIGTERM)
    program.wait()
    assert program.status == -signal.SIGTERM, program.report()
    assert is_over(pid.read_text().strip())


def test_without_a_guest_it_is_said_and_nothing_is_learnt_of_kvm(host, tmp_path):
    """What was never tried must not be remembered as of no use."""
    place = tmp_path / "lab"
    place.mkdir()
    host.variables["VERBENA_LAB"] = str(place)
    program = host.verbena_command("lab", "run", "--", "true")
    assert program.status == 125, program.report()
    assert "`verbena lab build` makes it" in program.err, program.report()
    assert list(place.iterdir()) == []


SCENARIOS = hosts.ROOT / "scenarios"


def packets(host, *arguments: str, against: str = "self"):
    return host.verbena_command("xcheck", "--against", against, "--packets", *arguments,
                                timeout_s=300)


def test_ours_in_real_time_answers_scripts_as_ours_in_virtual_time_does(host, tmp_path):
    """Each packet, completion, event, state and byte of memory, of responder and requester."""
    junit = tmp_path / "junit.xml"
    program = packets(host, str(SCENARIOS), "--only", "peer_", "--json", "--junit", str(junit))
    assert program.status == 0, program.report()
    checks = json.loads(program.out)["scenarios"]
    assert {check["result"] for check in checks} == {"agrees"}, program.report()
    assert len(checks) > 80
    suite = xml.etree.ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == (str(len(checks)), "0")


SCRIPT = """
title = "A SEND that {how}"
[[host]]
name = "server"
[[host]]
name = "peer"
nic = false
[[memory]]
name = "inbox"
host = "server"
size = 64
[story]
steps = [
  "server recv 7 into=inbox length=64",
  "peer packet SEND_ONLY psn=+0 payload=8 ackreq=1 {words}",
  "wait server 7",
]
"""


def test_a_device_that_answers_otherwise_is_told_of(host, tmp_path):
    """Ours, told that its network loses all that it sends."""
    (tmp_path / "lost.toml").write_text(SCRIPT.format(how="is answered", words=""))
    program = packets(host, str(tmp_path), "--fault", "drop direction=out")
    assert program.status == 1, program.report()
    assert "packets: ours ACK psn=0 msn=1 syndrome=0x1f, theirs nothing" in program.out, (
        program.report())
    assert "0 agree, 1 differ" in program.out, program.report()


def test_scenarios_that_are_no_scripts_are_left_out_and_told_of(host, tmp_path):
    (tmp_path / "script.toml").write_text(SCRIPT.format(how="arrives", words=""))
    (tmp_path / "two_nics.toml").write_text('title = "t"\n[story]\nsteps = ["wait 1us"]\n')
    program = packets(host, str(tmp_path), "--json")
    assert program.status == 0, program.report()
    results = {check["scenario"]: check for check in json.loads(program.out)["scenarios"]}
    assert results["script"]["result"] == "agrees", program.report()
    assert results["two_nics"]["result"] == "unsuited", program.report()
    assert "one scripted peer" in results["two_nics"]["words"], program.report()

    program = packets(host, str(tmp_path / "two_nics.toml"))
    assert program.status == 1, program.report()
    assert "no scenario is for another device; two_nics: " in program.err, program.report()


def test_packets_need_a_wire(host):
    program = packets(host, str(SCENARIOS), against="127.0.0.1:9")
    assert program.status == 2 and "--packets is for rxe and self" in program.err, program.report()
    program = packets(host, str(SCENARIOS), "--loss", "1%", against="rxe")
    assert program.status == 2 and "no device of ours" in program.err, program.report()
    program = packets(host, "/nowhere/x.toml")
    assert program.status == 1 and "/nowhere/x.toml" in program.err, program.report()
