"""`verbena dump` on iWARP: it finds the start frames and FPDUs of a TCP connection as tshark does,
with the same values in every field, and tells a good CRC from a bad one."""

from __future__ import annotations

import json
import pathlib

import hosts
import test_dump
import tools.tshark_clean as tshark_clean

DATA = hosts.ROOT / "tests" / "data"
# tshark looks only into connections whose beginning it saw.
CUT = {"siw_nvme_read4k.pcap", "siw_nvme_disconnect.pcap"}
CAPTURES = sorted(path for path in (DATA / "captures" / "siw").glob("*.pcap")
                  if path.name not in CUT)
WITH_CRC = DATA / "captures" / "siw" / "siw_crc_cm_ok.pcap"
MARKERS = DATA / "dump" / "iwarp_markers.pcap"

# A field of tshark's, the layers of the dump that may have it, and its name there. A frame may hold
# several FPDUs: the second one's layers are named mpa_2, ddp_2, ...
COMPARED = {
    "iwarp_mpa.rev": (("mpa_request", "mpa_reply"), "revision"),
    "iwarp_mpa.marker_flag": (("mpa_request", "mpa_reply"), "markers"),
    "iwarp_mpa.crc_flag": (("mpa_request", "mpa_reply"), "crc"),
    "iwarp_mpa.rej_flag": (("mpa_request", "mpa_reply"), "reject"),
    "iwarp_mpa.pdlength": (("mpa_request", "mpa_reply"), "private_data_length"),
    "iwarp_mpa.ulpdulength": (("mpa",), "ulpdu_length"),
    "iwarp_ddp.tagged_flag": (("ddp",), "tagged"),
    "iwarp_ddp.last_flag": (("ddp",), "last"),
    "iwarp_ddp.dv": (("ddp",), "version"),
    "iwarp_ddp.stag": (("ddp",), "stag"),
    "iwarp_ddp.tagged_offset": (("ddp",), "tagged_offset"),
    "iwarp_ddp.qn": (("ddp",), "queue"),
    "iwarp_ddp.msn": (("ddp",), "msn"),
    "iwarp_ddp.mo": (("ddp",), "message_offset"),
    "iwarp_rdma.version": (("rdmap",), "version"),
    "iwarp_rdma.opcode": (("rdmap",), "opcode"),
    "iwarp_rdma.inval_stag": (("rdmap",), "invalidate_stag"),
    "iwarp_rdma.sinkstag": (("read_request",), "sink_stag"),
    "iwarp_rdma.sinkto": (("read_request",), "sink_offset"),
    "iwarp_rdma.rdmardsz": (("read_request",), "read_size"),
    "iwarp_rdma.srcstag": (("read_request",), "source_stag"),
    "iwarp_rdma.srcto": (("read_request",), "source_offset"),
    "iwarp_rdma.term_layer": (("terminate",), "layer"),
    "iwarp_rdma.term_hdrct_m": (("terminate",), "has_length"),
    "iwarp_rdma.hdrct_d": (("terminate",), "has_ddp_header"),
    "iwarp_rdma.hdrct_r": (("terminate",), "has_rdmap_header"),
}
LENGTH = "frame.len"


def number(text) -> int:
    if isinstance(text, bool) or text in ("True", "False"):
        return int(text in (True, "True"))
    return int(text, 0) if isinstance(text, str) else int(text)


def values_of(packet: dict, layers: tuple[str, ...], field: str) -> list[int]:
    """The values of a field in all layers with one of these names, numbered or not."""
    return [number(layer[field]) for name, layer in packet.items()
            if isinstance(layer, dict) and field in layer
            and name.rstrip("0123456789").rstrip("_") in layers]


def disagreements(path: pathlib.Path, packets: list[dict]) -> list[str]:
    rows = tshark_clean.fields_of(path, [LENGTH, *COMPARED], ["-o", "tcp.try_heuristic_first:TRUE"])
    found = []
    for row, packet in zip(rows, packets, strict=True):
        for (name, (layers, field)), text in zip(COMPARED.items(), row[1:]):
            theirs = [number(value) for value in text.split(tshark_clean.VALUES_BETWEEN) if value]
            ours = values_of(packet, layers, field)
            if theirs != ours:
                found.append(f"{path.name}, frame {packet['frame']['number']}: {name} is {theirs} "
                             f"to tshark, {ours} to the dump")
    return found


def test_tshark_agrees_on_every_field_of_the_kernels_connections(host, tmp_path):
    joined = tmp_path / "all.pcap"
    test_dump.join_captures(CAPTURES, joined)
    packets = test_dump.dump_json(host, joined)
    assert disagreements(joined, packets) == []
    assert sum(len(values_of(packet, ("mpa",), "ulpdu_length")) for packet in packets) == 201
    assert "DDP segment" not in " ".join(packet.get("error", "") for packet in packets)


def test_a_difference_would_be_seen(host):
    """The positive control of the comparison."""
    packets = test_dump.dump_json(host, WITH_CRC)
    first = next(packet for packet in packets if "ddp" in packet)
    first["ddp"]["last"] = False
    del first["mpa"]
    found = disagreements(WITH_CRC, packets)
    assert len(found) == 2 and "ulpdulength" in found[0] and "last_flag" in found[1]


def test_offsets_are_those_of_the_frame(host):
    """A field lies where the dump says, unless it says that the FPDU came in pieces."""
    content = (DATA / "captures" / "siw" / "siw_cm_ok.pcap").read_bytes()
    checked = reassembled = 0
    for packet in test_dump.dump_json(host, DATA / "captures" / "siw" / "siw_cm_ok.pcap"):
        if "stag" not in packet.get("ddp", {}):
            continue
        if packet["ddp"].get("reassembled"):
            reassembled += 1
            continue
        frame = packet["frame"]["file_offset"] + test_dump.RECORD_HEADER_BYTES
        at = frame + packet["ddp"]["offset"] + 2
        assert int.from_bytes(content[at:at + 4], "big") == packet["ddp"]["stag"]
        checked += 1
    # siw sent one FPDU as 1444 and 4 bytes.
    assert checked >= 8 and reassembled == 1


def test_markers_are_seen_as_tshark_sees_them(host):
    """A capture that puts markers in front of FPDUs, in their middle and before their CRC; tshark
    calls all 18 CRCs good."""
    packets = test_dump.dump_json(host, MARKERS)
    assert disagreements(MARKERS, packets) == []
    statuses = [packet["mpa"]["crc_status"] for packet in packets if "mpa" in packet]
    assert statuses == ["good"] * 18
    assert sum(packet["mpa"]["markers"] for packet in packets if "mpa" in packet) == 16


def test_a_flipped_bit_is_a_bad_crc(host, tmp_path):
    packets = test_dump.dump_json(host, WITH_CRC)
    victim = next(packet for packet in packets if "payload" in packet)
    content = bytearray(WITH_CRC.read_bytes())
    content[victim["frame"]["file_offset"] + test_dump.RECORD_HEADER_BYTES
            + victim["payload"]["offset"]] ^= 1
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(content)
    lines = test_dump.dump(host, str(broken))
    assert [line for line in lines if "CRC BAD" in line] == [lines[victim["frame"]["number"] - 1]]
    good = [line for line in test_dump.dump(host, str(WITH_CRC)) if "CRC good" in line]
    assert sum("CRC good" in line for line in lines) == len(good) - 1 > 10


def test_a_connection_without_crc_says_nothing_of_it(host):
    lines = test_dump.dump(host, str(DATA / "captures" / "siw" / "siw_cm_ok.pcap"))
    assert not any("CRC" in line for line in lines)


def test_lines_say_what_an_operation_does(host):
    capture = DATA / "captures" / "siw" / "siw_p2p_cm_badread.pcap"
    lines = "\n".join(test_dump.dump(host, str(capture)))
    assert "MPA Request" in lines and "peer-to-peer" in lines
    assert "iWARP Write" in lines and "iWARP Read Request" in lines
    details = "\n".join(test_dump.dump(host, "-v", str(WITH_CRC)))
    assert "  DDP, 14 bytes at " in details and "(Write)" in details
    assert "of the reassembled FPDU" in details


def test_tcp_that_is_no_iwarp_stays_tcp(host):
    for name in CUT:
        path = DATA / "captures" / "siw" / name
        for line in test_dump.dump(host, "--json", str(path)):
            packet = json.loads(line)
            assert packet["title"] == "TCP"
            assert "error" not in packet
