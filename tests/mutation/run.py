#!/usr/bin/env python3
"""Breaks the transport on purpose, one line at a time, and checks that a scenario notices.

    run.py [--build DIR] [NAME ...]

Each mutant is built in a directory of its own (only the transport is compiled anew) and runs all
scenarios; one that passes them all is a survivor, and the exit status is 1.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS_MAX = 300  # A mutant that loops for ever is caught too.


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str


REQUESTER = "rc_requester.cpp"
COMPLETER = "rc_completer.cpp"
RESPONDER = "rc_responder.cpp"
ANSWERS = "rc_responder_transmit.cpp"

MUTANTS = [
    # The requester.
    Mutant("last packet doesn't ask for an ACK", REQUESTER,
           "fields.ack_request = last ||", "fields.ack_request = false && last ||"),
    Mutant("SE on every packet", REQUESTER,
           "fields.solicited = last && wqe.solicited &&", "fields.solicited = !wqe.solicited &&"),
    Mutant("READ retry asks from the start", REQUESTER,
           "const std::uint32_t offset = cursor_.packet * connection_.mtu_bytes;",
           "const std::uint32_t offset = 0;"),
    Mutant("swap and compare exchanged", REQUESTER,
           "is_swap ? wqe.swap : wqe.compare_add,", "wqe.compare_add,"),
    Mutant("fence ignored", REQUESTER,
           "if (wqe.fence && rd_atomics_in_flight_ > 0)", "if (false)"),
    Mutant("initiator depth ignored", REQUESTER,
           "if (rd_atomics_in_flight_ >= config_.max_rd_atomic)", "if (false)"),
    Mutant("draining begins new requests", REQUESTER,
           "if (draining_) {", "if (false) {"),
    Mutant("one packet too few", REQUESTER,
           "static_cast<std::uint32_t>((bytes + mtu - 1) / mtu)",
           "static_cast<std::uint32_t>((bytes + mtu - 2) / mtu)"),
    Mutant("go back to the wrong packet", REQUESTER,
           ".packet = acknowledged_packets_of_head()};", ".packet = 0};"),
    # The completer.
    Mutant("a NAK doesn't acknowledge what is before it", COMPLETER,
           "// too.\n  if (!acknowledge_before(env, packet.psn())) {", "// too.\n  if (false) {"),
    Mutant("access errors complete as operational errors", COMPLETER,
           "case NakCode::remote_access_error:\n      return WcStatus::rem_access_err;",
           "case NakCode::remote_access_error:\n      return WcStatus::rem_op_err;"),
    Mutant("rnr_retry 7 is finite", COMPLETER,
           "if (config_.rnr_retry != rnr_retry_infinite) {", "if (true) {"),
    Mutant("one RNR retry too many", COMPLETER,
           "if (rnr_retries_left_ == 0) {", "if (rnr_retries_left_ == 255) {"),
    Mutant("RNR doesn't wait", COMPLETER,
           "rnr_deadline_ = env.now + rnr_timer(packet.aeth().syndrome().code());",
           "rnr_deadline_ = env.now;"),
    Mutant("one retry too few", COMPLETER,
           "if (retries_left_ == 0) {", "if (retries_left_ == 1) {"),
    Mutant("an ACK for the future is believed", COMPLETER,
           "if (!active_ || !is_in_flight(packet.psn())) {", "if (!active_) {"),
    Mutant("an ATOMIC Acknowledge is never a NAK", COMPLETER,
           "packet.aeth().syndrome().kind() == AethKind::ack ? on_atomic",
           "true ? on_atomic"),
    Mutant("READ data lands at the start", COMPLETER,
           "const std::uint64_t offset = std::uint64_t{at} * connection_.mtu_bytes;",
           "const std::uint64_t offset = std::uint64_t{0 * at};"),
    Mutant("flushed requests succeed", COMPLETER,
           "complete_head(env, WcStatus::wr_flush_err);", "complete_head(env, WcStatus::success);"),
    # The responder.
    Mutant("a gap is accepted", RESPONDER,
           "if (distance > 0) {", "if (distance > 1000) {"),
    Mutant("a NAK for every packet behind a gap", RESPONDER,
           "if (nak_sent_) {", "if (false) {"),
    Mutant("the NAK names the packet that came", RESPONDER,
           "acknowledge(env, {.psn = expected_psn_, .syndrome = syndrome, .msn = msn_});",
           "acknowledge(env, {.psn = packet.psn(), .syndrome = syndrome, .msn = msn_});"),
    Mutant("a duplicate atomic is executed again", RESPONDER,
           "if (distance < 0) {", "if (distance < 0 && !keeps_reply(packet)) {"),
    Mutant("the key isn't checked", RESPONDER,
           "return check_key(env, packet);", "return std::nullopt;"),
    Mutant("the opcode sequence isn't checked", RESPONDER,
           "if (auto refusal = check_opcode_sequence(packet)) {",
           "if (auto refusal = check_opcode_sequence(packet); false) {"),
    Mutant("the queue pair's rights aren't checked", RESPONDER,
           "if (auto refusal = check_opcode_allowed(packet)) {",
           "if (auto refusal = check_opcode_allowed(packet); false) {"),
    Mutant("the length isn't checked", RESPONDER,
           "if (auto refusal = check_length(packet)) {",
           "if (auto refusal = check_length(packet); false) {"),
    Mutant("misaligned atomics are executed", RESPONDER,
           "if (to_value(va) % atomic_bytes != 0) {", "if (false) {"),
    Mutant("the MSN stands still", RESPONDER,
           "inbound_ = Inbound::idle;\n  msn_ = msn_.next();", "inbound_ = Inbound::idle;"),
    Mutant("byte_len is wrong", RESPONDER,
           "completion.byte_len = static_cast<std::uint32_t>(received_bytes_);",
           "completion.byte_len = static_cast<std::uint32_t>(packet.payload().size());"),
    Mutant("access errors raise the wrong event", RESPONDER,
           ".failure = refusal.syndrome == access_error ? QpFailure::access_error",
           ".failure = refusal.syndrome == access_error ? QpFailure::request_error"),
    Mutant("RNR NAK with another timer", RESPONDER,
           "Syndrome::rnr_nak(config_.min_rnr_timer & Syndrome::code_max)",
           "Syndrome::rnr_nak(31)"),
]


def run(command: list[str], **options) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def build(directory: pathlib.Path) -> bool:
    result = run(["cmake", "--build", str(directory / "build"), "--target", "runner"])
    if result.returncode != 0:
        print(result.stdout[-2000:], file=sys.stderr)
    return result.returncode == 0


def scenario_that_notices(directory: pathlib.Path) -> str | None:
    """The first scenario that fails; None if all pass."""
    try:
        result = run([str(directory / "build" / "runner"), str(ROOT / "scenarios")],
                     timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return "(never ends)"
    if result.returncode == 0:
        return None
    return result.stdout.strip() or "(crash)"


def prepare(directory: pathlib.Path) -> None:
    copy = directory / "source" / "proto" / "ib_bth"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ROOT / "proto" / "ib_bth", copy)
    configured = run(["cmake", "-G", "Ninja", "-S", str(ROOT / "tests" / "mutation"), "-B",
                      str(directory / "build"), f"-DVERBENA_ROOT={ROOT}",
                      f"-DVERBENA_MUTANT={directory / 'source'}", "-DCMAKE_CXX_FLAGS=-O1"])
    if configured.returncode != 0:
        sys.exit(configured.stdout + configured.stderr)


def outcome_of(directory: pathlib.Path, mutant: Mutant) -> str | None:
    """What is wrong with this mutant's fate; None if it was caught."""
    path = directory / "source" / "proto" / "ib_bth" / mutant.file
    original = path.read_text()
    if original.count(mutant.old) != 1:
        return "its line isn't in the source exactly once: bring the list up to date"
    path.write_text(original.replace(mutant.old, mutant.new))
    try:
        if not build(directory):
            return "it doesn't compile"
        caught_by = scenario_that_notices(directory)
    finally:
        path.write_text(original)
    if caught_by is None:
        return "it SURVIVES: no scenario notices"
    print(f"caught  {mutant.name}: {os.path.relpath(caught_by, ROOT)}", flush=True)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "mutation")
    parser.add_argument("names", nargs="*", help="only mutants whose names contain one of these")
    arguments = parser.parse_args()
    directory = arguments.build.resolve()
    prepare(directory)
    if not build(directory) or scenario_that_notices(directory) is not None:
        print("the unbroken transport doesn't build, or fails a scenario", file=sys.stderr)
        return 1
    wrong = 0
    for mutant in MUTANTS:
        if arguments.names and not any(name in mutant.name for name in arguments.names):
            continue
        problem = outcome_of(directory, mutant)
        if problem is not None:
            wrong += 1
            print(f"WRONG   {mutant.name}: {problem}", flush=True)
    print(f"{len(MUTANTS)} mutants known, {wrong} not caught")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
