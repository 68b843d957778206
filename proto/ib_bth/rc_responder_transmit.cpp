// The answers of the responder, in the order of their PSNs: READ responses and atomic results, then
// the ACK or NAK that covers what came after them (IBTA vol 1, 9.7.5.1.1: responses are in order).

#include <algorithm>

#include "proto/ib_bth/data_packet.h"
#include "proto/ib_bth/emit.h"
#include "proto/ib_bth/rc_operations.h"
#include "proto/ib_bth/rc_responder.h"

namespace verbena::ib {

namespace {

Opcode read_response_opcode(bool first, bool last) {
  if (first) {
    return last ? Opcode::rc_read_response_only : Opcode::rc_read_response_first;
  }
  return last ? Opcode::rc_read_response_last : Opcode::rc_read_response_middle;
}

PacketFields answer_fields(Opcode opcode, const Connection& connection, Psn psn, Aeth aeth) {
  PacketFields fields = connection.fields_of(with_service(connection.service, opcode), psn);
  fields.aeth = aeth;
  return fields;
}

PacketNote note_of(bool is_replay) {
  return {.kind = is_replay ? PacketNote::Kind::replay : PacketNote::Kind::plain};
}

}  // namespace

RcResponder::Transmitted RcResponder::poll_transmit(TransportEnv& env, PacketSink& sink,
                                                    std::uint32_t& packets_max) {
  while (wants_transmit()) {
    if (packets_max == 0) {
      return {.result = TransmitResult::more};
    }
    Reply* const reply = first_waiting();
    bool sent = false;
    if (reply == nullptr) {
      sent = emit_acknowledge(sink);
    } else if (is_atomic(reply->operation)) {
      sent = emit_atomic_acknowledge(sink, *reply);
    } else {
      switch (emit_read_response(env, sink, *reply)) {
        case Emitted::sent:
          sent = true;
          break;
        case Emitted::no_room:
          break;
        case Emitted::no_access:
          return {.result = TransmitResult::more, .failure = QpFailure::access_error};
      }
    }
    if (!sent) {
      return {.result = TransmitResult::blocked};
    }
    --packets_max;
  }
  return {.result = TransmitResult::idle};
}

RcResponder::Reply* RcResponder::first_waiting() {
  for (std::uint32_t i = 0; replies_waiting_ > 0 && i < replies_capacity_; ++i) {
    Reply& reply = replies_[(replies_next_ + i) % replies_capacity_];
    if (reply.waiting) {
      return &reply;
    }
  }
  return nullptr;
}

RcResponder::Emitted RcResponder::emit_read_response(TransportEnv& env, PacketSink& sink,
                                                     Reply& reply) {
  const auto bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(reply.bytes_left, connection_.mtu_bytes));
  const bool last = reply.bytes_left == bytes;
  const PacketFields fields =
      answer_fields(read_response_opcode(reply.begins, last), connection_,
                    reply.first_psn + static_cast<std::int32_t>(reply.next_packet),
                    Aeth(Syndrome::ack(), reply.msn));
  const MutableBytes packet = sink.reserve(transport_size(fields.opcode, bytes));
  if (packet.empty()) {
    return Emitted::no_room;
  }
  const std::size_t header_bytes = emit_headers(packet, fields, bytes);
  if (bytes > 0) {
    const std::uint64_t offset = std::uint64_t{reply.next_packet} * connection_.mtu_bytes;
    const auto host = env.memory.remote({.pd = reply.pd, .qpn = receive_.qpn()}, reply.rkey,
                                        reply.va + offset, bytes, Access::remote_read);
    if (!host) {
      refuse_reply(env, reply);
      return Emitted::no_access;
    }
    copy_bytes(packet.subspan(header_bytes), {*host, bytes});
  }
  emit_pad(packet.subspan(header_bytes + bytes), bytes);
  sink.commit(note_of(reply.is_replay));
  reply.begins = false;
  reply.bytes_left -= bytes;
  ++reply.next_packet;
  if (last) {
    end_reply(reply);
  }
  return Emitted::sent;
}

/// The registration went while the READ was being answered: the rest of it is refused, and with it
/// all that waits behind.
void RcResponder::refuse_reply(TransportEnv& env, const Reply& reply) {
  env.counters.add(Counter::resp_remote_access_errors);
  active_ = false;
  ack_ = PendingAck{.psn = reply.first_psn + static_cast<std::int32_t>(reply.next_packet),
                    .syndrome = Syndrome::nak(NakCode::remote_access_error),
                    .msn = msn_};
  for (std::uint32_t i = 0; i < replies_capacity_; ++i) {
    replies_[i].waiting = false;
  }
  replies_waiting_ = 0;
}

bool RcResponder::emit_atomic_acknowledge(PacketSink& sink, Reply& reply) {
  PacketFields fields = answer_fields(Opcode::rc_atomic_acknowledge, connection_, reply.first_psn,
                                      Aeth(Syndrome::ack(), reply.msn));
  fields.atomic_ack_eth = AtomicAckEth(reply.atomic_original);
  const MutableBytes packet = sink.reserve(transport_size(fields.opcode, 0));
  if (packet.empty()) {
    return false;
  }
  emit_headers(packet, fields, 0);
  sink.commit(note_of(reply.is_replay));
  end_reply(reply);
  return true;
}

bool RcResponder::emit_acknowledge(PacketSink& sink) {
  const PacketFields fields = answer_fields(Opcode::rc_acknowledge, connection_, ack_->psn,
                                            Aeth(ack_->syndrome, ack_->msn));
  const MutableBytes packet = sink.reserve(transport_size(fields.opcode, 0));
  if (packet.empty()) {
    return false;
  }
  emit_headers(packet, fields, 0);
  PacketNote note = note_of(ack_->is_replay);
  if (ack_->syndrome.kind() == AethKind::rnr_nak) {
    note.kind = PacketNote::Kind::rnr_nak;
  } else if (ack_->syndrome.kind() == AethKind::nak) {
    note.kind = PacketNote::Kind::nak;
  }
  sink.commit(note);
  ack_.reset();
  return true;
}

void RcResponder::end_reply(Reply& reply) {
  reply.waiting = reply.is_replay = false;
  --replies_waiting_;
}

}  // namespace verbena::ib
