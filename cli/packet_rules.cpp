#include "cli/packet_rules.h"

#include "cli/known_differences.h"

namespace verbena::cli {
namespace {

/// Patterns as fnmatch(3) has them.
struct Rule {
  const char* scenario;
  const char* what;
  const char* ours;
  const char* theirs;
  const char* words;
};

constexpr const char* length_rule =
    "A First or Middle has exactly the path MTU, an Only at most (9.7.4.1.6). rxe means to look, "
    "but compares the opcode where the opcode's properties were meant (rxe_resp.c, check_length())";
constexpr const char* answer_rule =
    "An answer of a wrong kind or place is a bad response (9.7.5.2.7). rxe goes to the error state "
    "without having given the request a status, so that the program is told of success "
    "(rxe_comp.c, check_ack())";
constexpr const char* answer_length_rule =
    "An answer of a wrong length is a bad response (9.7.5.2.7); rxe takes the data and waits for "
    "the rest (rxe_comp.c, do_read())";
constexpr const char* uc_rule =
    "A message that another one interrupts is lost, and the new one counts (9.8.2.2.1). rxe "
    "forgets the lost one only if it had a receive request, so that after a WRITE nothing is taken "
    "any more (rxe_resp.c, do_class_d1e_error())";
constexpr const char* whole_rule =
    "An Only that brings less than its RETH says is an invalid request (9.7.4.1.7); rxe takes it "
    "for a First (rxe_resp.c, check_rkey())";
constexpr const char* reads_rule =
    "More READs than were agreed on are an invalid request (9.7.4.1.6). rxe leaves that to the "
    "requester (rxe_resp.c, check_resource()), and has answered the first one by then";
constexpr const char* flush_rule =
    "An opcode that a responder doesn't offer is an invalid request (9.7.4.1.4); to rxe of 6.1 a "
    "FLUSH is an opcode that doesn't exist, which it drops";
constexpr const char* datagram_rule =
    "A datagram that is too long for its receive is dropped, and the receive waits for the next "
    "one (9.8.4.3); rxe goes to the error state";

constexpr const char* reserved_rule =
    "A reserved kind of answer is no acknowledgement, and ours drops it; rxe goes to the error "
    "state, and the program is told of success (rxe_comp.c, check_ack())";
constexpr const char* pad_rule = "A packet has a multiple of four bytes (9.2.5); rxe doesn't look";
constexpr const char* read_rule =
    "A part of a READ is answered by First or Only (9.4.4), and any part may be asked for again "
    "(9.7.5.1.3). rxe answers with Last, and after that drops what begins before that part "
    "(rxe_resp.c, duplicate_request())";

// Sections are those of the InfiniBand Architecture Specification, volume 1; the kernel is 6.1.
// The order matters: the first that fits is told.
constexpr Rule rules[] = {
    {"peer_write_of_nothing", "device", "goes on", "is gone",
     "rxe takes a WRITE for one without data if its RETH says so, looks up no region, and then "
     "copies the data that came all the same through a null pointer, in the kernel (rxe_resp.c, "
     "check_rkey() and write_data_in())"},
    {any, "events", "qp_*_err", "nothing", rxe_rule::event},
    {"peer_wrong_length *packet=SEND_*", "packets",
     "NAK psn=0 msn=0 (invalid request) syndrome=0x61", "nothing", length_rule},
    {"peer_wrong_length *packet=SEND_*", "completions", "7 rem_inv_req_err", any, length_rule},
    {"peer_wrong_length *packet=SEND_*", "state", "err", "rts", length_rule},
    {"peer_wrong_length *packet=SEND_*", "memory", "nothing", "inbox+1: 10?? bytes, *",
     length_rule},
    {"peer_uc_refused *packet=UC_SEND_*", "completions", "7 success recv bytes=4", any,
     length_rule},
    {"peer_uc_refused *packet=UC_SEND_*", "memory", "inbox+1: 3 bytes, *", "inbox+1: 10?? bytes, *",
     length_rule},
    {"peer_wrong_length *packet=WRITE_ONLY *length=2048*", "packets",
     "NAK psn=0 msn=0 (invalid request) syndrome=0x61", "nothing", whole_rule},
    {"peer_wrong_length *packet=WRITE_ONLY *length=2048*", "completions", "7 wr_flush_err",
     "nothing", whole_rule},
    {"peer_wrong_length *packet=WRITE_ONLY *length=2048*", "state", "err", "rts", whole_rule},
    {"peer_wrong_length *packet=WRITE_ONLY *length=2048*", "memory", "nothing",
     "target+1: 1023 bytes, *", whole_rule},
    {"peer_too_long*", "packets", "NAK psn=1 * syndrome=0x61", "NAK psn=1 * syndrome=0x63",
     rxe_rule::too_long},
    {"peer_too_long*", "completions", "7 loc_len_err", "7 loc_qp_op_err", rxe_rule::too_long},
    {"peer_invalidates*", "packets", "NAK * syndrome=0x62", "ACK psn=0 msn=0 syndrome=0x1f",
     rxe_rule::invalidate},
    {"peer_invalidates*", "completions", "7 loc_access_err", "7 rem_inv_req_err",
     rxe_rule::invalidate},
    {"peer_answers_badly *answer=READ_RESPONSE_LAST*", "completions", "1 bad_resp_err",
     "1 success rdma_read bytes=1500", answer_rule},
    {"peer_answers_badly *answer=ATOMIC_ACKNOWLEDGE*", "completions", "1 bad_resp_err",
     "1 success rdma_read bytes=1500", answer_rule},
    {"atomic_refused_by_atomic_ack", "completions", "1 rem_access_err", "1 success fetch_add",
     answer_rule},
    {"peer_answers_badly *answer=READ_RESPONSE_*", "completions", "1 bad_resp_err", "nothing",
     answer_length_rule},
    {"peer_answers_badly *answer=READ_RESPONSE_*", "state", "err", "rts", answer_length_rule},
    {"peer_answers_badly *answer=READ_RESPONSE_*", "memory", "nothing", "data+1: 10?? bytes, *",
     answer_length_rule},
    {"peer_refuses_oddly *syndrome=0x[67]?*", "completions", "1 bad_resp_err", "1 rem_op_err",
     "What a NAK with a reserved code means, nobody has said: ours takes it for a bad response "
     "(9.7.5.2.7), rxe for an operational error"},
    {"peer_refuses_oddly *syndrome=0x40*", "state", "rts", "err", reserved_rule},
    {"peer_uc", "completions", "2 success recv bytes=1025 imm=0x7; 3 success recv bytes=1",
     "nothing", uc_rule},
    {"peer_uc", "memory", "inbox+0: 1025 bytes, *", "inbox+0: 1 bytes, *", uc_rule},
    {"too_many_reads", "packets", "NAK psn=1024 msn=1 * syndrome=0x61",
     "READ_RESPONSE_ONLY psn=1024 payload=8 msn=2 *", reads_rule},
    {"too_many_reads", "state", "err", "rts", reads_rule},
    {"unsupported_opcode *opcode=FLUSH*", "packets",
     "NAK psn=0 msn=0 (invalid request) syndrome=0x61", "nothing", flush_rule},
    {"unsupported_opcode *opcode=FLUSH*", "state", "err", "rts", flush_rule},
    {"peer_datagram_too_long", "completions", "1 success recv bytes=44", "1 loc_qp_op_err",
     datagram_rule},
    {"peer_datagram_too_long", "state", "rts", "err", datagram_rule},
    {"peer_datagram_too_long", "memory", "inbox+41: 3 bytes, *", "nothing", datagram_rule},
    {"peer_not_for_us *bytes *hex=04_40_*_010203*", "packets", "nothing",
     "ACK psn=0 msn=1 syndrome=0x1f", pad_rule},
    {"peer_not_for_us *bytes *hex=04_40_*_010203*", "completions", "7 success recv bytes=4",
     "7 success recv bytes=3", pad_rule},
    {"peer_not_for_us *bytes *hex=04_40_*_010203*", "memory", any, any, pad_rule},
    {"peer_not_ready*", "packets", "nothing", "NAK psn=0 msn=0 (PSN sequence error) syndrome=0x60",
     "Behind an RNR NAK the responder waits for that request and says no more (9.7.5.2.8); rxe "
     "tells of the gap, too"},
    {"peer_atomic_again", "packets", "ATOMIC_ACKNOWLEDGE psn=0 msn=1 original=0 syndrome=0x1f",
     "ATOMIC_ACKNOWLEDGE psn=0 msn=2 original=0 syndrome=0x1f",
     "Which MSN the answer to a duplicate has, nobody relies on: ours is that of the first answer, "
     "rxe's the present one"},
    {"peer_read_again", "packets",
     "READ_RESPONSE_ONLY psn=1 *; READ_RESPONSE_ONLY psn=2 *; READ_RESPONSE_FIRST psn=0 *; "
     "READ_RESPONSE_MIDDLE psn=1 *",
     "READ_RESPONSE_LAST psn=1 payload=1024 *", read_rule},
};

}  // namespace

bool is_known_to_end(std::string_view against, const std::string& scenario) {
  return rule_for(against, scenario, {.what = "device", .ours = "goes on", .theirs = "is gone"})
      .has_value();
}

std::optional<std::string> rule_for(std::string_view against, const std::string& scenario,
                                    const AnswerDifference& difference) {
  if (against != "rxe") {
    return std::nullopt;
  }
  for (const Rule& rule : rules) {
    // That a device is gone is no part of "anything".
    if (difference.what == "device" && difference.what != rule.what) {
      continue;
    }
    if (fits(rule.scenario, scenario) && fits(rule.what, difference.what) &&
        fits(rule.ours, difference.ours) && fits(rule.theirs, difference.theirs)) {
      return rule.words;
    }
  }
  return std::nullopt;
}

}  // namespace verbena::cli
