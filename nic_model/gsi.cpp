#include "nic_model/gsi.h"

#include <algorithm>
#include <optional>
#include <span>

#include "proto/ib_bth/headers.h"
#include "proto/inet/headers.h"
#include "proto/roce/gid.h"

namespace verbena::nic {

namespace {

/// Between which GIDs a datagram travelled, from what lies before it. An IPv4 header is in the last
/// 20 bytes, and what is before it is anything; so that header, which has a checksum, is looked for
/// first.
ib::cm::Route route_back(ByteView grh) {
  const auto ipv4 = read_struct<inet::Ipv4Header>(grh.last(inet::ipv4_header_bytes));
  if (ipv4.version_and_length == inet::Ipv4Header::version_and_length_plain &&
      inet::ipv4_checksum(ipv4) == ipv4.checksum.value()) {
    return {.local = roce::gid_from_ipv4(ipv4.destination),
            .remote = roce::gid_from_ipv4(ipv4.source)};
  }
  const auto ipv6 = read_struct<inet::Ipv6Header>(grh);
  return {.local = roce::gid_from_ipv6(ipv6.destination),
          .remote = roce::gid_from_ipv6(ipv6.source)};
}

/// The row of the GID table; the communication manager speaks RoCE v2.
std::optional<std::uint8_t> index_of(const Nic& nic, const Gid& gid) {
  const auto& rows = nic.config().gids;
  const auto found = std::ranges::find_if(rows, [&](const GidEntry& row) {
    return row.gid == gid && row.type == GidEntry::Type::roce_v2;
  });
  return found == rows.end() ? std::nullopt
                             : std::optional(static_cast<std::uint8_t>(found - rows.begin()));
}

Va address_of(const std::byte* bytes) { return Va{reinterpret_cast<std::uintptr_t>(bytes)}; }

}  // namespace

void Gsi::close(Nic& nic) {
  // Nothing else uses them, so none of these can fail.
  if (qp_ != nullptr) {
    static_cast<void>(nic.destroy_qp(*qp_));
  }
  if (mr_ != nullptr) {
    static_cast<void>(nic.dereg_mr(*mr_));
  }
  for (Cq* cq : {send_cq_, receive_cq_}) {
    if (cq != nullptr) {
      static_cast<void>(nic.destroy_cq(*cq));
    }
  }
  if (pd_ != nullptr) {
    static_cast<void>(nic.dealloc_pd(*pd_));
  }
}

Result<void, NicError> Gsi::open(Nic& nic, Time now) {
  const auto created = create_objects(nic);
  return created ? make_ready(nic, now) : created;
}

Result<void, NicError> Gsi::create_objects(Nic& nic) {
  const auto keep = [](auto created, auto*& place) -> Result<void, NicError> {
    if (!created) {
      return std::unexpected(created.error());
    }
    place = *created;
    return {};
  };
  auto done = keep(nic.alloc_pd(), pd_);
  // A device that is imitated may have short CQs: then fewer MADs are on their way at a time.
  sends_ = std::min(sends_max, nic.profile().cqe_max);
  receives_ = std::min(receives_max, nic.profile().cqe_max);
  done = done ? keep(nic.create_cq(sends_, 0), send_cq_) : done;
  done = done ? keep(nic.create_cq(receives_, 0), receive_cq_) : done;
  done = done ? keep(nic.reg_mr(*pd_, memory_.data(), memory_.size(), address_of(memory_.data()),
                                Access::local_write),
                     mr_)
              : done;
  if (!done) {
    return done;
  }
  return keep(nic.create_qp(*pd_, {.type = QpType::gsi,
                                   .send_cq = send_cq_,
                                   .recv_cq = receive_cq_,
                                   .caps = {.send_wr_max = sends_,
                                            .recv_wr_max = receives_,
                                            .send_sge_max = 1,
                                            .recv_sge_max = 1,
                                            .inline_bytes_max = ib::cm::mad_bytes}}),
              qp_);
}

Result<void, NicError> Gsi::make_ready(Nic& nic, Time now) {
  namespace mask = qp_attr_mask;
  QpAttr attr;
  attr.qkey = qkey_gsi;
  attr.state = QpState::init;
  auto done =
      nic.modify_qp(now, *qp_, attr, mask::state | mask::pkey_index | mask::port | mask::qkey);
  for (std::uint64_t i = 0; done && i < receives_; ++i) {
    post_receive(nic, now, i);
  }
  arm(nic);
  attr.state = QpState::rtr;
  done = done ? nic.modify_qp(now, *qp_, attr, mask::state) : done;
  attr.state = QpState::rts;
  return done ? nic.modify_qp(now, *qp_, attr, mask::state | mask::sq_psn) : done;
}

void Gsi::post_receive(Nic& nic, Time now, std::uint64_t index) {
  const Sge sge{.addr = address_of(&memory_[index * receive_bytes]),
                .length = receive_bytes,
                .lkey = mr_->lkey};
  static_cast<void>(nic.post_recv(now, *qp_, {.wr_id = index, .sges = std::span(&sge, 1)}));
}

bool Gsi::send(Nic& nic, Time now, const ib::cm::Outgoing& outgoing) {
  const auto row = index_of(nic, outgoing.route.local);
  if (!row) {
    return true;  // Not an address of ours: as good as lost on the wire.
  }
  std::array<Completion, 16> done;
  while (send_cq_->poll(done) > 0) {
  }
  const auto handle = nic.create_ah(*pd_, {.dgid = outgoing.route.remote,
                                           .flow_label = outgoing.route.flow_label,
                                           .sgid_index = *row,
                                           .hop_limit = outgoing.route.hop_limit,
                                           .traffic_class = outgoing.route.traffic_class,
                                           .sl = outgoing.route.sl,
                                           .has_grh = true});
  if (!handle) {
    return true;
  }
  const Sge sge{.addr = address_of(outgoing.mad.data()), .length = ib::cm::mad_bytes};
  SendWr wr;
  wr.signaled = true;
  wr.inline_data = true;
  wr.sges = std::span(&sge, 1);
  wr.address = &handle_of(**handle);
  wr.remote_qpn = qpn_gsi;
  wr.remote_qkey = qkey_gsi;
  const auto posted = nic.post_send(now, *qp_, wr);
  nic.destroy_ah(**handle);
  return posted || posted.error() != PostError::queue_full;
}

void Gsi::arm(Nic& nic) { nic.req_notify_cq(*receive_cq_, false); }

bool Gsi::receive(MadHandler& handler) {
  taken_count_ = receive_cq_->poll(taken_);
  for (const Completion& completion : std::span(taken_).first(taken_count_)) {
    hand_over(completion, handler);
  }
  return taken_count_ > 0;
}

void Gsi::replenish(Nic& nic, Time now) {
  for (const Completion& completion : std::span(taken_).first(taken_count_)) {
    post_receive(nic, now, completion.wr_id);
  }
  taken_count_ = 0;
}

void Gsi::hand_over(const Completion& completion, MadHandler& handler) const {
  if (completion.status != WcStatus::success || completion.byte_len < receive_bytes) {
    return;
  }
  const auto area = ByteView(memory_).subspan(completion.wr_id * receive_bytes, receive_bytes);
  handler.on_mad(route_back(area.first(ib::grh_bytes)), area.subspan(ib::grh_bytes));
}

}  // namespace verbena::nic
