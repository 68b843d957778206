"""One-line changes that break the NIC, each of which a scenario must notice.

`old` must be in the file exactly once, and `new` takes its place. What is equivalent to the
original is no mutant: it must change what a peer or a program can see.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str


REQUESTER = "proto/ib_bth/rc_requester.cpp"
COMPLETER = "proto/ib_bth/rc_completer.cpp"
RESPONDER = "proto/ib_bth/rc_responder.cpp"
ANSWERS = "proto/ib_bth/rc_responder_answer.cpp"
PACKET = "proto/ib_bth/data_packet.cpp"
UC_REQUESTER = "proto/ib_bth/uc_requester.cpp"
UC_RESPONDER = "proto/ib_bth/uc_responder.cpp"
UD_RESPONDER = "proto/ib_bth/ud_responder.cpp"
ENCAPSULATION = "proto/roce/encap.cpp"
QUEUE = "proto/send_queue.cpp"
RECEIVES = "proto/recv_queue.cpp"
RECEIVE = "nic_model/nic_receive.cpp"
NIC = "nic_model/nic.cpp"
CM = "proto/ib_bth/cm/agent.cpp"
CM_RECEIVE = "proto/ib_bth/cm/agent_receive.cpp"
MEMORY = "nic_model/memory_table.cpp"
QPS = "nic_model/qp_table.cpp"
QP_LIFE = "nic_model/nic_qp.cpp"
MIGRATION = "nic_model/nic_migration.cpp"
TRANSMIT = "nic_model/nic_transmit.cpp"
STREAMS = "nic_model/nic_stream.cpp"
STREAM_OUT = "proto/iwarp/stream_qp_transmit.cpp"
STREAM_EXTENSIONS = "proto/iwarp/stream_qp_extensions.cpp"
STREAM_IN = "proto/iwarp/stream_qp_receive.cpp"
TCP_IN = "proto/inet/tcp/connection_receive.cpp"

MUTANTS = [
    # The requester.
    Mutant("last packet doesn't ask for an ACK", REQUESTER,
           "fields.ack_request = slice.last ||", "fields.ack_request = false && slice.last ||"),
    Mutant("SE on every packet", PACKET,
           "fields.solicited = slice.last && wqe.solicited &&",
           "fields.solicited = !wqe.solicited &&"),
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
           "wqe.psn_count = packets_of(wqe.length, connection_.mtu_bytes);",
           "wqe.psn_count = packets_of(std::max(wqe.length, 1U) - 1, connection_.mtu_bytes);"),
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
           "if (retries_left_ > 0) {", "if (retries_left_ > 1) {"),
    Mutant("an ACK for the future is believed", COMPLETER,
           "if (!active_ || !is_in_flight(packet.psn())) {", "if (!active_) {"),
    Mutant("an ATOMIC Acknowledge is never a NAK", COMPLETER,
           "packet.aeth().syndrome().kind() == AethKind::ack ? on_atomic",
           "true ? on_atomic"),
    Mutant("READ data lands at the start", COMPLETER,
           "const std::uint64_t offset = std::uint64_t{at} * connection_.mtu_bytes;",
           "const std::uint64_t offset = std::uint64_t{0 * at};"),
    Mutant("an ACK is for what is before its PSN only", COMPLETER,
           "if (!acknowledge_before(env, packet.psn().next())) {",
           "if (!acknowledge_before(env, packet.psn())) {"),
    Mutant("an answer of any length will do", COMPLETER,
           "packet.payload().size() != expected_bytes) {", "false) {"),
    Mutant("a reserved kind of answer is a NAK", COMPLETER,
           "case AethKind::reserved:\n      break;\n  }\n  return {.verdict = RxVerdict::drop(",
           "case AethKind::reserved:\n      return on_nak(env, packet);\n  }\n"
           "  return {.verdict = RxVerdict::drop("),
    Mutant("flushed requests succeed", COMPLETER,
           "complete_head(env, WcStatus::wr_flush_err);", "complete_head(env, WcStatus::success);"),
    # The responder.
    Mutant("a gap is accepted", RESPONDER,
           "if (distance > 0) {", "if (distance > 1000) {"),
    Mutant("a NAK for every packet behind a gap", ANSWERS,
           "if (nak_sent_) {", "if (false) {"),
    Mutant("the NAK names the packet that came", ANSWERS,
           "acknowledge(env, {.psn = expected_psn_, .syndrome = syndrome, .msn = msn_});",
           "acknowledge(env, {.psn = packet.psn(), .syndrome = syndrome, .msn = msn_});"),
    Mutant("a duplicate atomic is executed again", RESPONDER,
           "if (distance < 0) {", "if (distance < 0 && !keeps_reply(packet.info().operation)) {"),
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
           "if (is_aligned_operation(info.operation) && to_value(va) % atomic_bytes != 0) {",
           "if (false) {"),
    Mutant("the MSN stands still", RESPONDER,
           "inbound_ = Inbound::idle;\n  msn_ = msn_.next();", "inbound_ = Inbound::idle;"),
    Mutant("byte_len is wrong", RESPONDER,
           "completion.byte_len = static_cast<std::uint32_t>(received_bytes_);",
           "completion.byte_len = static_cast<std::uint32_t>(packet.payload().size());"),
    Mutant("access errors raise the wrong event", ANSWERS,
           "? QpFailure::access_error", "? QpFailure::request_error"),
    Mutant("RNR NAK with another timer", RESPONDER,
           "Syndrome::rnr_nak(config_.min_rnr_timer & Syndrome::code_max)",
           "Syndrome::rnr_nak(31)"),
    Mutant("READs take no room for their replies", RESPONDER,
           "if (keeps_reply(packet.info().operation) && !has_reply_slot()) {", "if (false) {"),
    Mutant("an access error is an event even if a receive request tells", ANSWERS,
           "(takes_receive(packet) && refusal.check >= RxCheck::length && !queue().empty());",
           "false;"),
    Mutant("a bad key is no reason to go into error", ANSWERS,
           "msn = msn_});\n  if (refusal.syndrome.kind() ==",
           "msn = msn_});\n  if (true || refusal.syndrome.kind() =="),
    # Timers and losses.
    Mutant("the ACK timer is never armed", COMPLETER,
           "ack_deadline_ = config_.ack_timeout ? env.now + *config_.ack_timeout : time_never;",
           "ack_deadline_ = time_never;"),
    Mutant("a gap in the answers isn't noticed", COMPLETER,
           "if (implied_nak_at_ == una_) {", "if (true) {"),
    # Posting.
    Mutant("lengths are summed in 32 bits", QUEUE,
           "const std::uint64_t length = total_length(wr.sges);",
           "const auto length = static_cast<std::uint32_t>(total_length(wr.sges));"),
    Mutant("READs are queued that can't be done", REQUESTER,
           "(wants_response && config_.max_rd_atomic == 0)", "false"),
    Mutant("local memory isn't checked before sending", REQUESTER,
           "!sges_permit(env.memory, connection_.pd, queue_.sges(index), local_access_of(wqe))",
           "false"),
    Mutant("answers go to memory that must not be written", REQUESTER,
           "return wqe.wants_data() ? Access::local_write : Access::none;",
           "return Access::none;"),
    Mutant("bad local memory completes as another error", REQUESTER,
           ".status = length_fits ? WcStatus::loc_prot_err : WcStatus::loc_len_err};",
           ".status = length_fits ? WcStatus::loc_qp_op_err : WcStatus::loc_len_err};"),
    # The way in.
    Mutant("reserved bits are part of the QP number", RECEIVE,
           "qps.find(packet.dest_qpn())",
           "qps.find(Qpn{std::to_integer<unsigned>(frame.transport[4]) << 24 |"
           " to_value(packet.dest_qpn())})"),
    Mutant("the ICRC isn't checked", RECEIVE,
           "if (computed != frame->wire_icrc()) {", "if (false) {"),
    Mutant("the P_Key isn't checked", RECEIVE,
           "if (!pkeys_match(pkey_default, packet.bth().pkey())) {", "if (false) {"),
    Mutant("RoCE v1 has RoCE v2's ethertype", ENCAPSULATION,
           "return inet::ethertype_roce_v1;", "return inet::ethertype_ipv6;"),
    # Services without acknowledgements.
    Mutant("packets of an unreliable connection ask for an ACK", UC_REQUESTER,
           "const MutableBytes packet = sink.reserve(",
           "fields.ack_request = true;\n  const MutableBytes packet = sink.reserve("),
    Mutant("an unreliable connection never gets over a loss", UC_RESPONDER,
           "expected_psn_ = packet.psn().next();",
           "expected_psn_ = in_sequence ? packet.psn().next() : expected_psn_;"),
    Mutant("the length of a datagram lacks the GRH", UD_RESPONDER,
           "static_cast<std::uint32_t>(grh_area_bytes + packet.payload().size());",
           "static_cast<std::uint32_t>(packet.payload().size());"),
    Mutant("the Q_Key isn't checked", UD_RESPONDER,
           "if (qkey != config_.qkey) {", "if (false) {"),
    # Shared queues and windows.
    Mutant("a message doesn't keep the request that it began with", RECEIVES,
           "if (!is_shared() || held_) {", "if (true) {"),
    Mutant("nobody hears that a shared queue runs low", RECEIVES,
           "if (size() < limit_) {", "if (false) {"),
    Mutant("nobody hears of a queue pair's last request", QP_LIFE,
           "!std::exchange(qp.last_wqe_told, true)", "false"),
    Mutant("all XRC messages go to one queue", RESPONDER,
           "find(Srqn{number})", "find(Srqn{1})"),
    Mutant("a window opens all of its region", MEMORY,
           ".length = binding.length,", ".length = mr.length,"),
    Mutant("a window of type 2 is open to everybody", MEMORY,
           "if (grant->kind == Kind::window_2 && grant->qpn != user.qpn) {", "if (false) {"),
    Mutant("SEND with invalidate leaves the window open", RESPONDER,
           "if (packet.info().has_invalidate() &&", "if (false &&"),
    Mutant("a local invalidate leaves the window open", REQUESTER,
           ": env.memory.invalidate(user, wqe.invalidate_rkey);",
           ": Result<void, AccessFault>{};"),
    Mutant("an ATOMIC WRITE writes nothing", RESPONDER,
           "place(*host, packet.payload());\n  answer_without_data(packet);",
           "answer_without_data(packet);"),
    # FLUSH.
    Mutant("a FLUSH makes nothing persistent", MEMORY,
           "if (!flush.persistence) {", "if (true) {"),
    Mutant("a FLUSH of a region flushes the range alone", MEMORY,
           "const std::uint64_t length = flush.whole ? (*grant)->length : flush.length;",
           "const std::uint64_t length = flush.length;"),
    Mutant("a FLUSH needs no right", RESPONDER,
           "return access_needed(flush_of(packet));", "return Access::none;"),
    # Ways and rates.
    Mutant("a dead way is the end though there is another", COMPLETER,
           "std::exchange(has_alternate_path_, false)", "false"),
    Mutant("nobody follows a peer that migrates", MIGRATION,
           "if (qp.attr.path_mig_state == PathMigState::armed) {\n    migrate(qp);",
           "if (false) {\n    migrate(qp);"),
    Mutant("MigReq is always 1", TRANSMIT,
           "bth.set_migrated(false);", "bth.set_migrated(true);"),
    Mutant("nobody hears of a migration that is refused", MIGRATION,
           "!std::exchange(qp.path_mig_err_told, true)", "false"),
    Mutant("a limited rate limits nothing", TRANSMIT,
           "if (qp.pacer.permits(now)) {", "if (true) {"),
    # The connection manager.
    Mutant("what isn't answered isn't sent again", CM,
           "if (connection.retries_left > 0) {", "if (false) {"),
    Mutant("a message is sent again for ever", CM,
           "    --connection.retries_left;\n", ""),
    Mutant("a REQ that comes twice makes two connections", CM_RECEIVE,
           "if (connection.state != State::closed) {", "if (false) {"),
    Mutant("a REP that comes again gets no second RTU", CM_RECEIVE,
           "connection->state == State::established && connection->last_sent) {", "false) {"),
    Mutant("a DREQ that crosses ours isn't answered", CM_RECEIVE,
           "      send_drep(*connection, {});\n"
           "      enter_timewait(now, *connection);\n      raise",
           "      enter_timewait(now, *connection);\n"
           "      set_deadline(*connection, time_never);\n"
           "      raise"),
    Mutant("nobody hears of a rejection", CM_RECEIVE,
           "raise(*connection, Event::Kind::rejected, rej);", ""),
    Mutant("a service that nobody listens on is passed over", CM_RECEIVE,
           "Answered::req,\n             RejectReason::invalid_service_id);",
           "Answered::req,\n             RejectReason::no_resources);"),
    # The device.
    Mutant("a completion queue in use can be destroyed", NIC,
           "if (cq.users > 0) {", "if (cq.users > 9) {"),
    Mutant("destroyed queue pairs are counted as alive", QPS,
           "place->reset();\n  --count_;", "place->reset();"),
    Mutant("keys live on after deregistration", MEMORY,
           "grants_[index] = Grant{};", ""),
    Mutant("the range of a region isn't checked", MEMORY,
           "return offset <= size && length <= size - offset;",
           "return length == 0 || offset != size + 1;"),
    Mutant("a region's rights aren't checked for its owner", MEMORY,
           "wrong_pd);\n  }\n  if (!allows(grant->access, needed)) {",
           "wrong_pd);\n  }\n  if (false) {"),
    Mutant("a region's rights aren't checked for peers", MEMORY,
           "wrong_qp);\n  }\n  if (!allows(grant->access, needed)) {",
           "wrong_qp);\n  }\n  if (false) {"),
    # Streams (iWARP).
    Mutant("the last segment doesn't say that it is", STREAM_OUT,
           "tagged_header(info.opcode, is_last, wqe.rkey,",
           "tagged_header(info.opcode, false, wqe.rkey,"),
    Mutant("more READs in flight over a stream than agreed on", STREAM_OUT,
           "return !wqe.wants_data() || in_flight < connection_.agreement.depths.ord;",
           "return true;"),
    Mutant("SENDs over a stream are numbered from 0", STREAM_IN,
           "if (header.msn.value() != expected_send_msn_) {",
           "if (header.msn.value() + 1 != expected_send_msn_) {"),
    Mutant("immediate data over a stream doesn't tell how much was written", STREAM_EXTENSIONS,
           "completion.byte_len = write_has_ended_ ? std::exchange(written_bytes_, 0) : 0;", ""),
    Mutant("a compare-and-swap over a stream doesn't compare", STREAM_EXTENSIONS,
           "return is_equal ? (original & ~mask) | (data & mask) : original;",
           "return is_equal || true ? (original & ~mask) | (data & mask) : original;"),
    Mutant("the answers to atomics over a stream have one number", STREAM_EXTENSIONS,
           "atomic_response_msn_++, 0)", "atomic_response_msn_, 0)"),
    Mutant("a stream knows RFC 7306 though its user says no", STREAM_EXTENSIONS,
           "if (!limits_.extensions) {", "if (false) {"),
    Mutant("a refused WRITE over a stream is called an invalid request", STREAMS,
           "} else if (is_access_violation(*reason)) {", "} else if (false) {"),
    Mutant("a lost connection is no event", STREAMS,
           "raise({.type = AsyncEventType::qp_fatal, .qp = &qp});", ""),
    Mutant("a stream never closes", STREAMS,
           "sent == iwarp::StreamTransmitted::idle && stream.wants_close()", "false"),
    Mutant("no fast retransmit", TCP_IN, "retransmit_first_ = true;", ""),
]
