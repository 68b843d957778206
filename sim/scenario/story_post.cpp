// Steps that are work requests: what their words say, and posting them.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "sim/scenario/story.h"

namespace verbena::sim {
namespace {

constexpr std::uint64_t u64_max = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t u32_max = std::numeric_limits<std::uint32_t>::max();

struct Verb {
  std::string_view name;
  WrOpcode opcode;
};
constexpr std::array verbs{Verb{"send", WrOpcode::send},
                           Verb{"write", WrOpcode::rdma_write},
                           Verb{"read", WrOpcode::rdma_read},
                           Verb{"fetch_add", WrOpcode::atomic_fetch_and_add},
                           Verb{"compare_swap", WrOpcode::atomic_cmp_and_swp},
                           Verb{"atomic_write", WrOpcode::atomic_write},
                           Verb{"flush", WrOpcode::flush},
                           Verb{"bind", WrOpcode::bind_mw},
                           Verb{"invalidate", WrOpcode::local_inv},
                           Verb{"recv", WrOpcode::send}};

/// "remote_write+remote_read".
std::vector<Word> words_of_sum(const Word& word) {
  std::vector<Word> words;
  for (std::size_t begin = 0; begin <= word.text.size();) {
    const std::size_t end = std::min(word.text.find('+', begin), word.text.size());
    words.push_back({word.text.substr(begin, end - begin),
                     {word.place.line, word.place.column + static_cast<std::uint32_t>(begin)}});
    begin = end + 1;
  }
  return words;
}

/// The next of the keys that a window may have: the index stays, the tag is the consumer's choice.
Rkey next_key(Rkey key) {
  constexpr std::uint32_t tag_mask = 0xFF;
  return Rkey{(to_value(key) & ~tag_mask) | ((to_value(key) + 1) & tag_mask)};
}

bool is_atomic(WrOpcode opcode) {
  return opcode == WrOpcode::atomic_fetch_and_add || opcode == WrOpcode::atomic_cmp_and_swp;
}

struct Refusal {
  PostError error;
  std::string_view name;
  std::string_view text;
};
constexpr std::array refusals{
    Refusal{PostError::wrong_state, "wrong_state", "the queue pair's state doesn't allow it"},
    Refusal{PostError::queue_full, "queue_full", "the queue is full"},
    Refusal{PostError::too_many_sges, "too_many_sges", "too many pieces of memory"},
    Refusal{PostError::inline_too_long, "inline_too_long", "too much inline data"},
    Refusal{PostError::message_too_long, "message_too_long", "the message is too long"},
    Refusal{PostError::opcode_unsupported, "opcode_unsupported", "the operation isn't supported"},
    Refusal{PostError::bad_address, "bad_address",
            "the address is missing, or of another protection domain"},
    Refusal{PostError::bad_binding, "bad_binding", "the window can't be bound so"},
    Refusal{PostError::shared_queue, "shared_queue",
            "the queue pair takes its receive requests from a shared queue"}};

}  // namespace

const WrOpcode* Story::opcode_of_verb(std::string_view verb) {
  const auto* const row = std::ranges::find(verbs, verb, &Verb::name);
  return row != verbs.end() ? &row->opcode : nullptr;
}

/// A list of pieces: "source+8:100,other:50"; the last one's length is the rest if it isn't told.
void Story::read_sges(const Word& word, std::uint64_t length, bool has_length, Post& post) {
  std::string_view rest = word.text;
  std::uint64_t left = length;
  while (true) {
    const auto comma = rest.find(',');
    const std::string_view piece = rest.substr(0, comma);
    const auto colon = piece.find(':');
    const Location at = stage_.location({std::string(piece.substr(0, colon)), word.place});
    std::uint64_t bytes = has_length ? left : at.bytes_left();
    if (colon != std::string_view::npos) {
      bytes = size_of({std::string(piece.substr(colon + 1)), word.place}, u32_max);
    }
    left -= std::min(left, bytes);
    post.sges.push_back(
        {.addr = at.va(), .length = static_cast<std::uint32_t>(bytes), .lkey = at.region->lkey});
    if (comma == std::string_view::npos) {
      return;
    }
    rest.remove_prefix(comma + 1);
  }
}

Story::Post Story::read_post(Line& line, std::size_t host, const Word& verb) {
  Post post;
  post.host = host;
  post.is_recv = verb.text == "recv";
  post.wr.opcode = *opcode_of_verb(verb.text);
  const Word id = line.next("the work request's ID");
  const auto dots = id.text.find("..");
  post.next_id = number_of({id.text.substr(0, dots), id.place}, u64_max);
  post.last_id = dots == std::string::npos
                     ? post.next_id
                     : number_of({id.text.substr(dots + 2), id.place}, u64_max - 1);
  if (const auto srq = line.take("srq")) {
    post.srq = &stage_.srq(*srq);
  }
  if (!post.is_recv || post.srq == nullptr) {
    post.connection = &stage_.connection(host, line.take("via"), line.place());
  }
  if (is_local(post.wr.opcode)) {
    read_window_work(line, post);
  } else if (post.wr.opcode == WrOpcode::flush) {
    read_flush(line, post);
  } else {
    read_operands(line, post);
  }
  post.refused = line.take("refused");
  post.wr.signaled = !line.flag("unsignaled");
  post.wr.solicited = line.flag("solicited");
  post.wr.fence = line.flag("fence");
  line.end();
  return post;
}

/// "bind 1 window=w to=target+8 length=16 rights=remote_write", "invalidate 2 window=w".
void Story::read_window_work(Line& line, Post& post) {
  post.window = &stage_.window(line.require("window"));
  if (post.wr.opcode == WrOpcode::bind_mw) {
    const Location at = stage_.location(line.require("to"));
    post.wr.binding = {.key = Rkey{},
                       .region = at.region->lkey,
                       .addr = at.va(),
                       .length = size_of(line.require("length"), u64_max),
                       .access = access_of(words_of_sum(line.require("rights")))};
  }
}

/// "flush 1 at=target+8 length=16 for=persistence", "flush 2 at=target whole for=visibility".
void Story::read_flush(Line& line, Post& post) {
  post.remote = stage_.location(line.require("at"));
  post.rkey = line.take("rkey");
  Flush& flush = post.wr.flush;
  flush.whole = line.flag("whole");
  if (!flush.whole) {
    flush.length = static_cast<std::uint32_t>(size_of(line.require("length"), u32_max));
  }
  for (const Word& word : words_of_sum(line.require("for"))) {
    if (word.text != "visibility" && word.text != "persistence") {
      fail(word, fmt::format("A FLUSH is for visibility or persistence, not '{}'.", word.text));
    }
    (word.text == "visibility" ? flush.global_visibility : flush.persistence) = true;
  }
}

/// Local memory (where data comes from, or for a READ, an atomic and a receive where it goes),
/// remote memory, and what else the operation needs.
void Story::read_operands(Line& line, Post& post) {
  const bool brings = post.wr.opcode == WrOpcode::rdma_read || is_atomic(post.wr.opcode);
  const auto length = line.take("length");
  const std::uint64_t bytes =
      is_atomic(post.wr.opcode) ? 8 : (length ? size_of(*length, u32_max) : 0);
  const std::string_view local_key = post.is_recv || brings ? "into" : "from";
  if (const auto local = line.take(local_key)) {
    read_sges(*local, bytes, length.has_value() || is_atomic(post.wr.opcode), post);
    if (const auto lkey = line.take("lkey")) {
      post.sges.back().lkey = Lkey{static_cast<std::uint32_t>(stage_.value(*lkey, u32_max))};
    }
  }
  if (!post.is_recv && post.wr.opcode != WrOpcode::send) {
    post.remote =
        stage_.location(line.require(is_atomic(post.wr.opcode) ? "at" : (brings ? "from" : "to")));
    post.rkey = line.take("rkey");
  }
  if (const auto imm = line.take("imm")) {
    post.wr.imm = ImmData{static_cast<std::uint32_t>(number_of(*imm, u32_max))};
    post.wr.opcode =
        post.wr.opcode == WrOpcode::send ? WrOpcode::send_with_imm : WrOpcode::rdma_write_with_imm;
  } else if (const auto window = line.take("invalidate")) {
    post.wr.opcode = WrOpcode::send_with_inv;
    post.window = &stage_.window(*window);
  }
  if (post.wr.opcode == WrOpcode::atomic_fetch_and_add) {
    post.wr.compare_add = number_of(line.require("add"), u64_max);
  } else if (post.wr.opcode == WrOpcode::atomic_cmp_and_swp) {
    post.wr.compare_add = number_of(line.require("compare"), u64_max);
    post.wr.swap = number_of(line.require("swap"), u64_max);
  }
  if (const auto qkey = line.take("qkey")) {
    post.qkey = Qkey{static_cast<std::uint32_t>(number_of(*qkey, u32_max))};
  }
}

/// What is known only when the request is posted: the way to the peer, its queue, a window's key.
void Story::address(Post& post, const End& end) const {
  if (end.to_peer != nullptr) {
    post.wr.address = &nic::handle_of(*end.to_peer);
    post.wr.remote_qpn = stage_.peer_of(end).qpn;
    post.wr.remote_qkey = post.qkey.value_or(post.connection->spec->qkey);
  }
  if (post.srq != nullptr) {
    post.wr.remote_srqn = nic::number_of(*post.srq);
  }
  if (post.window != nullptr) {
    post.wr.invalidate_rkey = post.window->rkey;
    post.wr.binding.key = next_key(post.window->rkey);
  }
}

Result<void, PostError> Story::post_one(Post& post, Node& node) {
  if (post.connection == nullptr) {
    return node.nic().post_srq_recv(*post.srq, {.wr_id = post.next_id, .sges = post.sges});
  }
  const End& end = stage_.end_of(*post.connection, post.host);
  if (end.qp == nullptr) {
    fail(waiting_step().place(), "The connection is closed.");
  }
  if (post.is_recv) {
    return node.nic().post_recv(node.now(), *end.qp, {.wr_id = post.next_id, .sges = post.sges});
  }
  post.wr.wr_id = post.next_id;
  address(post, end);
  return node.nic().post_send(node.now(), *end.qp, post.wr);
}

/// A refusal must be the one that the step expects.
void Story::check_refusal(const Post& post, PostError error) const {
  const auto& refusal = *std::ranges::find(refusals, error, &Refusal::error);
  if (!post.refused) {
    fail(waiting_step().place(),
         fmt::format("The work request can't be posted: {}.", refusal.text));
  }
  if (post.refused->text != refusal.name) {
    fail(*post.refused, fmt::format("The work request is refused as {}, expected {}.", refusal.name,
                                    post.refused->text));
  }
}

void Story::tell_of(const Post& post) {
  if (listener_ == nullptr) {
    return;
  }
  if (post.connection == nullptr || post.refused || is_local(post.wr.opcode)) {
    listener_->on_other(waiting_step());
  } else if (post.is_recv) {
    listener_->on_receive({.wr_id = post.next_id, .sges = post.sges});
  } else {
    listener_->on_send(post.wr);
  }
}

/// Posts what is left of a range. False while the queue is full.
bool Story::post_more() {
  Post& post = *post_;
  Node& node = *stage_.hosts()[post.host].node;
  post.wr.sges = post.sges;
  if (post.remote) {
    post.wr.remote_addr = post.remote->va();
    post.wr.rkey = post.rkey ? Rkey{static_cast<std::uint32_t>(stage_.value(*post.rkey, u32_max))}
                             : post.remote->region->rkey;
  }
  while (post.next_id <= post.last_id) {
    const auto posted = post_one(post, node);
    if (!posted && posted.error() == PostError::queue_full && !post.refused) {
      node.drive();
      return false;
    }
    if (!posted) {
      check_refusal(post, posted.error());
    } else if (post.refused) {
      fail(*post.refused,
           fmt::format("The work request isn't refused, expected {}.", post.refused->text));
    }
    tell_of(post);
    stage_.simulation().trace().add(node.now(), TraceKind::posted, node.id(),
                                    waiting_step().text());
    ++post.next_id;
  }
  post_.reset();
  node.drive();
  return true;
}

}  // namespace verbena::sim
