// Why connections are rejected: the codes of a REJ, and their words.
// Read first: IBTA vol 1, 12.6.7.2 (table 109).
#pragma once

#include <cstdint>
#include <string>

#include "proto/ib_bth/cm/messages.h"

namespace verbena::ib::cm {

// X(identifier, code, words)
#define VERBENA_REJECT_REASONS(X)                                                         \
  X(no_qp, 1, "no queue pair available")                                                  \
  X(no_eec, 2, "no end-to-end context available")                                         \
  X(no_resources, 3, "no resources available")                                            \
  X(timeout, 4, "the other end waited in vain for an answer and gave up")                 \
  X(unsupported, 5, "unsupported request")                                                \
  X(invalid_comm_id, 6, "invalid communication ID")                                       \
  X(invalid_comm_instance, 7, "invalid pair of communication IDs")                        \
  X(invalid_service_id, 8, "invalid service ID: nobody listens there")                    \
  X(invalid_transport_type, 9, "invalid transport type")                                  \
  X(stale_connection, 10, "stale connection: one end believes in a connection of before") \
  X(rdc_does_not_exist, 11, "reliable datagram channel doesn't exist")                    \
  X(invalid_gid, 12, "primary remote port GID rejected")                                  \
  X(invalid_lid, 13, "primary remote port LID rejected")                                  \
  X(invalid_sl, 14, "invalid primary SL")                                                 \
  X(invalid_traffic_class, 15, "invalid primary traffic class")                           \
  X(invalid_hop_limit, 16, "invalid primary hop limit")                                   \
  X(invalid_packet_rate, 17, "invalid primary packet rate")                               \
  X(invalid_alternate_gid, 18, "alternate remote port GID rejected")                      \
  X(invalid_alternate_lid, 19, "alternate remote port LID rejected")                      \
  X(invalid_alternate_sl, 20, "invalid alternate SL")                                     \
  X(invalid_alternate_traffic_class, 21, "invalid alternate traffic class")               \
  X(invalid_alternate_hop_limit, 22, "invalid alternate hop limit")                       \
  X(invalid_alternate_packet_rate, 23, "invalid alternate packet rate")                   \
  X(cm_redirect, 24, "redirected to another port's communication manager")                \
  X(port_redirect, 25, "redirected to another port")                                      \
  X(invalid_mtu, 26, "invalid path MTU")                                                  \
  X(insufficient_responder_resources, 27, "insufficient responder resources")             \
  X(consumer_defined, 28, "rejected by the program that listens")                         \
  X(invalid_rnr_retry, 29, "invalid RNR retry count")                                     \
  X(duplicate_local_comm_id, 30, "duplicate local communication ID")                      \
  X(invalid_class_version, 31, "invalid class version")                                   \
  X(invalid_flow_label, 32, "invalid primary flow label")                                 \
  X(invalid_alternate_flow_label, 33, "invalid alternate flow label")                     \
  X(vendor_option_not_supported, 35, "vendor option not supported")

enum class RejectReason : std::uint16_t {
#define VERBENA_X(identifier, code, words) identifier = (code),
  VERBENA_REJECT_REASONS(VERBENA_X)
#undef VERBENA_X
};

/// "REJ 8, invalid service ID: nobody listens there".
[[nodiscard]] std::string describe(RejectReason reason);

}  // namespace verbena::ib::cm
