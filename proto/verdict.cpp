#include "proto/verdict.h"

#include <fmt/format.h>

namespace verbena {

const char* name_of(RxCheck check) noexcept {
  switch (check) {
    case RxCheck::none:
      return "no";
    case RxCheck::frame:
      return "frame";
    case RxCheck::icrc:
      return "ICRC";
    case RxCheck::address:
      return "destination address";
    case RxCheck::opcode:
      return "opcode";
    case RxCheck::qp:
      return "destination QP";
    case RxCheck::qp_state:
      return "QP state";
    case RxCheck::service:
      return "transport service";
    case RxCheck::pkey:
      return "P_Key";
    case RxCheck::qkey:
      return "Q_Key";
    case RxCheck::peer:
      return "source address";
    case RxCheck::psn:
      return "PSN";
    case RxCheck::opcode_sequence:
      return "opcode sequence";
    case RxCheck::opcode_allowed:
      return "opcode allowed";
    case RxCheck::resources:
      return "resources";
    case RxCheck::length:
      return "length";
    case RxCheck::key:
      return "R_Key and range";
    case RxCheck::execute:
      return "execution";
    case RxCheck::response:
      return "response";
    case RxCheck::tcp_sequence:
      return "TCP sequence";
  }
  return "unknown";
}

namespace {

const char* verb_of(RxVerdict::Kind kind) {
  switch (kind) {
    case RxVerdict::Kind::accepted:
      return "accepted";
    case RxVerdict::Kind::duplicate:
      return "duplicate";
    case RxVerdict::Kind::early:
      return "early";
    case RxVerdict::Kind::nak:
      return "refused";
    case RxVerdict::Kind::dropped:
      return "dropped";
  }
  return "unknown";
}

}  // namespace

std::string describe(const RxVerdict& verdict) {
  if (verdict.kind == RxVerdict::Kind::accepted) {
    return {};
  }
  std::string text =
      fmt::format("{} by the {} check", verb_of(verdict.kind), name_of(verdict.check));
  if (verdict.expected != 0 || verdict.got != 0) {
    text += fmt::format(": expected {:#x}, got {:#x}", verdict.expected, verdict.got);
  }
  if (verdict.kind == RxVerdict::Kind::nak) {
    text += fmt::format("; NAK with syndrome {:#04x}", verdict.syndrome);
  }
  if (verdict.counter) {
    text += fmt::format(" ({})", counter_names[static_cast<std::size_t>(*verdict.counter)]);
  }
  return text;
}

}  // namespace verbena
