#include "ports/device_log.h"

#include <fmt/format.h>

#include "ports/diagnosis.h"
#include "ports/engine.h"
#include "ports/failure_journal.h"
#include "ports/log.h"
#include "ports/log_port.h"
#include "proto/roce/gid.h"

namespace verbena::ports {

std::string describe(const nic::QpChange& change) {
  using Cause = nic::QpChange::Cause;
  switch (change.cause) {
    case Cause::command:
      return {};
    case Cause::completion_error:
      return fmt::format("a request completed with {}", name_of(change.status));
    case Cause::invalid_request:
      return "the peer's request was invalid";
    case Cause::access_violation:
      return "the peer's request had no right to the memory that it named";
    case Cause::connection_lost:
      return "the connection is lost";
    case Cause::cq_overflow:
      return "its completion queue was full";
  }
  return {};
}

void DeviceLog::on_qp_change(const nic::Qp& qp, const nic::QpChange& change) {
  const std::string why = describe(change);
  if (logs(LogLevel::info)) {
    log(LogLevel::info, device_name_, nic::qpn_of(qp),
        fmt::format("{} to {}{}{}", name_of(change.from), name_of(nic::state_of(qp)),
                    why.empty() ? "" : ": ", why));
  }
  if (fabric_ != nullptr && change.cause != nic::QpChange::Cause::command) {
    note_failure(qp, change);
  }
}

void DeviceLog::note_failure(const nic::Qp& qp, const nic::QpChange& change) const {
  const nic::QpAttr attr = nic_.query_qp(qp);
  const std::string peer = attr.av.dgid == Gid{} ? ""
                                                 : fmt::format(", connected to {} QP 0x{:06x}",
                                                               roce::to_address_text(attr.av.dgid),
                                                               to_value(attr.dest_qpn));
  const std::string_view hint = change.cause == nic::QpChange::Cause::completion_error
                                    ? explain(change.status)
                                    : std::string_view{};
  ports::note_failure(*fabric_, Engine::now(),
                      fmt::format("QP 0x{:06x}{}: {}{}{}", to_value(nic::qpn_of(qp)), peer,
                                  describe(change), hint.empty() ? "" : ": ", hint));
}

void DeviceLog::on_verdict(ByteView frame, const RxVerdict& verdict) const {
  if (verdict.kind != RxVerdict::Kind::accepted) {
    log(LogLevel::debug, device_name_, std::nullopt,
        fmt::format("received {}: {}", describe_frame(frame), verbena::describe(verdict)));
  }
}

}  // namespace verbena::ports
