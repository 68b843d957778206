#include "proto/ib_bth/cm/reject_reason.h"

#include <fmt/format.h>

namespace verbena::ib::cm {

namespace {

const char* words_of(RejectReason reason) {
  switch (reason) {
#define VERBENA_X(identifier, code, words) \
  case RejectReason::identifier:           \
    return words;
    VERBENA_REJECT_REASONS(VERBENA_X)
#undef VERBENA_X
  }
  return "a reason that the specification doesn't list";
}

}  // namespace

std::string describe(RejectReason reason) {
  return fmt::format("REJ {}, {}", static_cast<unsigned>(reason), words_of(reason));
}

}  // namespace verbena::ib::cm
