// The extended interface of a completion queue: start_poll(), read what is wanted of the current
// completion, next_poll(), ..., end_poll(). See the manual page ibv_create_cq_ex(3).

#include <ctime>

#include "verbs/cq.h"
#include "verbs/errors.h"

namespace verbena::verbs {
namespace {

const Completion& current(ibv_cq_ex* cq) { return CompletionQueue::of(cq).current; }

/// Makes the oldest completion the current one; ENOENT if there is none. Called with the poll lock.
Errno advance(CompletionQueue& cq) {
  if (cq.nic_cq->poll({&cq.current, 1}) == 0) {
    return ENOENT;
  }
  cq.wr_id = cq.current.wr_id;
  cq.status = static_cast<ibv_wc_status>(cq.current.status);
  return 0;
}

/// Holds the poll lock until end_poll() if it finds a completion.
int start_poll(ibv_cq_ex* base, ibv_poll_cq_attr* attr) {
  auto& cq = CompletionQueue::of(base);
  if (attr->comp_mask != 0) {
    return EINVAL;
  }
  if (cq.nic_cq->empty()) {
    if (cq.engine.is_dead()) {
      return EIO;
    }
    cq.engine.try_progress();
  }
  cq.poll_lock.lock();
  const Errno error = advance(cq);
  if (error != 0) {
    cq.poll_lock.unlock();
  }
  return error;
}

int next_poll(ibv_cq_ex* base) { return advance(CompletionQueue::of(base)); }

void end_poll(ibv_cq_ex* base) { CompletionQueue::of(base).poll_lock.unlock(); }

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return static_cast<ibv_wc_opcode>(current(cq).opcode); }

std::uint32_t read_vendor_err(ibv_cq_ex*) { return 0; }
std::uint32_t read_byte_len(ibv_cq_ex* cq) { return current(cq).byte_len; }
__be32 read_imm_data(ibv_cq_ex* cq) { return imm_or_rkey(current(cq)); }
std::uint32_t read_qp_num(ibv_cq_ex* cq) { return to_value(current(cq).qpn); }
std::uint32_t read_src_qp(ibv_cq_ex* cq) { return to_value(current(cq).src_qpn); }
unsigned read_wc_flags(ibv_cq_ex* cq) { return wc_flags(current(cq)); }
std::uint32_t read_slid(ibv_cq_ex*) { return 0; }
std::uint8_t read_sl(ibv_cq_ex* cq) { return service_level(current(cq)); }
std::uint8_t read_dlid_path_bits(ibv_cq_ex*) { return 0; }

std::uint64_t read_completion_ts(ibv_cq_ex* cq) {
  return static_cast<std::uint64_t>(current(cq).time.time_since_epoch().count());
}

/// The device's clock is CLOCK_MONOTONIC; what it is apart from the wall clock, it is at any time.
std::uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) {
  timespec wall{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  const auto wall_now = std::chrono::seconds(wall.tv_sec) + std::chrono::nanoseconds(wall.tv_nsec);
  const Duration age = ports::Engine::now() - current(cq).time;
  return static_cast<std::uint64_t>((wall_now - age).count());
}

/// What a program may ask for; the rest belongs to offloads that this device doesn't have.
std::uint64_t supported_wc_flags(const nic::DeviceProfile& profile) {
  constexpr std::uint64_t timestamps =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  return std::uint64_t{IBV_WC_STANDARD_FLAGS} | (profile.has_timestamps ? timestamps : 0);
}

constexpr std::uint32_t supported_init_attrs =
    IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;

/// Programs call these without looking for NULL, for what they asked for; the others cost nothing.
void install_functions(ibv_cq_ex& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_byte_len = read_byte_len;
  cq.read_imm_data = read_imm_data;
  cq.read_qp_num = read_qp_num;
  cq.read_src_qp = read_src_qp;
  cq.read_wc_flags = read_wc_flags;
  cq.read_slid = read_slid;
  cq.read_sl = read_sl;
  cq.read_dlid_path_bits = read_dlid_path_bits;
  cq.read_completion_ts = read_completion_ts;
  cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept {
  return create_or_null([&]() -> Created<ibv_cq_ex> {
    const std::uint32_t flags =
        (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
    // A queue for one thread needs no other code; the lock is never contended then.
    const nic::DeviceProfile& profile = Context::of(context).engine().peek().profile();
    if ((attr->wc_flags & ~supported_wc_flags(profile)) != 0 ||
        (attr->comp_mask & ~supported_init_attrs) != 0 ||
        (flags & ~unsigned{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0) {
      return failed(EOPNOTSUPP);
    }
    ibv_pd* const parent_domain =
        (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 ? attr->parent_domain : nullptr;
    const auto cq = create_cq(Context::of(context), {.cqe = attr->cqe,
                                                     .cq_context = attr->cq_context,
                                                     .channel = attr->channel,
                                                     .comp_vector = attr->comp_vector,
                                                     .parent_domain = parent_domain});
    if (!cq) {
      return failed(cq.error());
    }
    install_functions(**cq);
    return *cq;
  });
}

}  // namespace verbena::verbs
