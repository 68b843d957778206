#include "tests/unit/iwarp/stream_pair.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace verbena::test {

using iwarp::MpaAgreement;
using iwarp::StreamEnv;

TestMemory::Region& TestMemory::add(std::uint32_t key, std::uint64_t address, std::size_t bytes,
                                    Access access, PdId pd) {
  Region& region = regions_[key];
  region = {.pd = pd, .address = address, .bytes = {}, .access = access};
  region.bytes.resize(bytes);
  return region;
}

Result<std::byte*, AccessFault> TestMemory::local(PdId pd, Lkey key, Va va, std::uint64_t length,
                                                  Access needed) {
  return find(pd, to_value(key), to_value(va), length, needed);
}

Result<std::byte*, AccessFault> TestMemory::remote(const MemoryUser& user, Rkey key, Va va,
                                                   std::uint64_t length, Access needed) {
  return find(user.pd, to_value(key), to_value(va), length, needed);
}

Result<std::byte*, AccessFault> TestMemory::find(PdId pd, std::uint32_t key, std::uint64_t address,
                                                 std::uint64_t length, Access needed) {
  const auto found = regions_.find(key);
  if (found == regions_.end()) {
    return std::unexpected(AccessFault::unknown_key);
  }
  Region& region = found->second;
  if (region.pd != pd) {
    return std::unexpected(AccessFault::wrong_pd);
  }
  if (!allows(region.access, needed)) {
    return std::unexpected(AccessFault::not_permitted);
  }
  if (address < region.address || address - region.address > region.bytes.size() ||
      length > region.bytes.size() - (address - region.address)) {
    return std::unexpected(AccessFault::out_of_range);
  }
  return region.bytes.data() + (address - region.address);
}

Completion CompletionList::take() {
  REQUIRE(completions.size() == 1);
  const Completion completion = completions.front();
  completions.clear();
  return completion;
}

MutableBytes Pipe::reserve(std::size_t size) {
  if (bytes.size() + size > room) {
    return {};
  }
  reserved_.assign(size, std::byte{0xEE});
  return reserved_;
}

void Pipe::commit() {
  bytes.insert(bytes.end(), reserved_.begin(), reserved_.end());
  all.insert(all.end(), reserved_.begin(), reserved_.end());
  reserved_.clear();
  ++commits;
}

StreamSide::StreamSide(const iwarp::StreamQp::Limits& limits, std::uint32_t recv_wr_max,
                       std::uint32_t recv_sge_max)
    : qp(Qpn{7}, limits, false, RecvSource(recv_wr_max, recv_sge_max), sent, received) {}

void StreamSide::transmit(std::uint32_t fpdus_max) {
  StreamEnv lent = env();
  static_cast<void>(qp.poll_transmit(lent, out, fpdus_max));
}

MpaAgreement StreamPair::plain_agreement() {
  return {.revision = 2,
          .send_format = {.markers = false, .crc = true},
          .receive_format = {.markers = false, .crc = true},
          .depths = {.ird = 4, .ord = 4},
          .rtr = std::nullopt};
}

StreamPair::StreamPair(MpaAgreement initiator_agreement, std::size_t segment_bytes)
    : StreamPair(initiator_agreement, segment_bytes, stream_limits, stream_limits) {}

StreamPair::StreamPair(const MpaAgreement& initiator_agreement, std::size_t segment_bytes,
                       const iwarp::StreamQp::Limits& of_a, const iwarp::StreamQp::Limits& of_b)
    : a(of_a), b(of_b) {
  MpaAgreement responder_agreement = initiator_agreement;
  std::swap(responder_agreement.send_format, responder_agreement.receive_format);
  a.qp.activate({.agreement = initiator_agreement,
                 .is_initiator = true,
                 .pd = PdId{1},
                 .access = all_remote,
                 .segment_bytes = segment_bytes});
  b.qp.activate({.agreement = responder_agreement,
                 .is_initiator = false,
                 .pd = PdId{1},
                 .access = all_remote,
                 .segment_bytes = segment_bytes});
}

void StreamPair::run() {
  Prng prng(1);
  run(prng, std::size_t{1} << 20);
}

void StreamPair::run(Prng& prng, std::size_t piece_bytes_max) {
  const auto deliver = [&](StreamSide& from, StreamSide& to) {
    const std::size_t size =
        std::min<std::size_t>(1 + prng.below(piece_bytes_max), from.out.bytes.size());
    const auto end = from.out.bytes.begin() + static_cast<std::ptrdiff_t>(size);
    const std::vector<std::byte> piece(from.out.bytes.begin(), end);
    from.out.bytes.erase(from.out.bytes.begin(), end);
    to.on_stream(piece);
  };
  do {
    a.transmit();
    b.transmit();
    deliver(a, b);
    deliver(b, a);
    a.transmit();
    b.transmit();
  } while (!a.out.bytes.empty() || !b.out.bytes.empty());
}

}  // namespace verbena::test
