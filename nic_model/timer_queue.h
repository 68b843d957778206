// Queue pairs by the time at which they want to be woken. Deadlines mostly move later (each ACK
// moves the next one), so an entry is not moved along: when it comes up too early it is put back.
#pragma once

#include <boost/intrusive/set.hpp>

#include "base/time.h"
#include "nic_model/qp.h"

namespace verbena::nic {

class TimerQueue {
 public:
  ~TimerQueue() { set_.clear(); }

  [[nodiscard]] Time next() const { return set_.empty() ? time_never : set_.begin()->timer_at; }

  /// Makes sure that `qp` comes up at `deadline` at the latest.
  void schedule(Qp& qp, Time deadline) {
    if (deadline >= qp.timer_at) {
      return;
    }
    cancel(qp);
    qp.timer_at = deadline;
    set_.insert(qp);
  }

  void cancel(Qp& qp) {
    if (qp.timer_hook.is_linked()) {
      set_.erase(set_.iterator_to(qp));
    }
    qp.timer_at = time_never;
  }

  /// Takes out a queue pair whose time has come; nullptr if there is none.
  [[nodiscard]] Qp* pop_due(Time now) {
    if (next() > now) {
      return nullptr;
    }
    Qp& qp = *set_.begin();
    cancel(qp);
    return &qp;
  }

 private:
  /// By time, then by number: the order depends on nothing else.
  struct Earlier {
    bool operator()(const Qp& a, const Qp& b) const {
      return a.timer_at != b.timer_at ? a.timer_at < b.timer_at : to_value(a.qpn) < to_value(b.qpn);
    }
  };

  boost::intrusive::set<
      Qp, boost::intrusive::member_hook<Qp, boost::intrusive::set_member_hook<>, &Qp::timer_hook>,
      boost::intrusive::compare<Earlier>>
      set_;
};

}  // namespace verbena::nic
