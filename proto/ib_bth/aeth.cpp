#include "proto/ib_bth/aeth.h"

namespace verbena::ib {

std::string_view nak_code_name(NakCode code) {
  switch (code) {
    case NakCode::psn_sequence_error:
      return "PSN sequence error";
    case NakCode::invalid_request:
      return "invalid request";
    case NakCode::remote_access_error:
      return "remote access error";
    case NakCode::remote_operational_error:
      return "remote operational error";
    case NakCode::invalid_rd_request:
      return "invalid RD request";
  }
  return "reserved NAK code";
}

}  // namespace verbena::ib
