// Counters of a port, under the names that mlx5 and rxe give them in
// /sys/class/infiniband/*/ports/*/hw_counters, so that existing scripts and habits fit; those that
// only we have follow. One table, everything else is derived.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbena {

// X(identifier): the identifier is the published name.
// Names of mlx5: linux drivers/infiniband/hw/mlx5/counters.c. Names of rxe: rxe_hw_counters.c.
#define VERBENA_COUNTERS(X)                                                                     \
  /* what mlx5 counts */                                                                        \
  X(rx_write_requests)          /* RDMA WRITE requests executed by the responder */             \
  X(rx_read_requests)           /* RDMA READ requests executed by the responder */              \
  X(rx_atomic_requests)         /* atomics executed by the responder */                         \
  X(out_of_buffer)              /* requests that met an empty receive queue */                  \
  X(out_of_sequence)            /* requests with a PSN after the expected one */                \
  X(duplicate_request)          /* requests with a PSN before the expected one */               \
  X(rnr_nak_retry_err)          /* RNR NAKs received by the requester */                        \
  X(packet_seq_err)             /* NAKs "PSN sequence error" received by the requester */       \
  X(implied_nak_seq_err)        /* gaps in responses: an implied NAK (IBTA vol 1, 9.7.5.2.4) */ \
  X(local_ack_timeout_err)      /* ACK timeouts of the requester */                             \
  X(resp_local_length_error)    /* messages longer than the receive posted for them */          \
  X(resp_cqe_error)             /* receive completions with an error, flush included */         \
  X(req_cqe_error)              /* send completions with an error, flush included */            \
  X(req_remote_invalid_request) /* NAKs "invalid request" received */                           \
  X(req_remote_access_errors)   /* NAKs "remote access error" received */                       \
  X(resp_remote_access_errors)  /* requests refused for their R_Key, rights or range */         \
  X(resp_cqe_flush_error)       /* receive completions flushed */                               \
  X(req_cqe_flush_error)        /* send completions flushed */                                  \
  X(np_ecn_marked_roce_packets) /* frames received with congestion experienced */               \
  X(np_cnp_sent)                /* congestion notifications sent */                             \
  X(rp_cnp_handled)             /* congestion notifications received */                         \
  X(rx_icrc_encapsulated)       /* RoCE frames dropped for a wrong ICRC */                      \
  /* what rxe counts besides */                                                                 \
  X(sent_pkts)              /* frames sent */                                                   \
  X(rcvd_pkts)              /* frames received, bad ones included */                            \
  X(rcvd_rnr_err)           /* as rnr_nak_retry_err, rxe's name */                              \
  X(send_rnr_err)           /* RNR NAKs sent */                                                 \
  X(rcvd_seq_err)           /* as packet_seq_err, rxe's name */                                 \
  X(ack_deferred)           /* acknowledgements that one later ACK covered */                   \
  X(retry_exceeded_err)     /* requests given up after retry_cnt attempts */                    \
  X(retry_rnr_exceeded_err) /* requests given up after rnr_retry RNR NAKs */                    \
  X(completer_retry_err)    /* times the requester went back to an earlier PSN */               \
  X(send_err)               /* frames that no destination took */                               \
  X(link_downed)            /* times the port went down */                                      \
  X(rdma_sends)             /* SEND messages completed by the requester */                      \
  X(rdma_recvs)             /* SEND messages completed by the responder */                      \
  /* ours: each silent drop has its own */                                                      \
  X(rx_bytes)                /* bytes of frames received */                                     \
  X(tx_bytes)                /* bytes of frames sent */                                         \
  X(retransmitted_pkts)      /* request packets sent again */                                   \
  X(ack_timer_renewed)       /* ACK timeouts while the peer had yet to read: no retries */      \
  X(rx_drop_port_down)       /* frames that came while the port was down */                     \
  X(rx_drop_not_roce)        /* frames that are not RoCE */                                     \
  X(rx_drop_malformed)       /* frames whose headers contradict their length */                 \
  X(rx_drop_unknown_opcode)  /* BTH opcodes that the specification does not list */             \
  X(rx_drop_wrong_address)   /* destination address is not ours */                              \
  X(rx_drop_unknown_qp)      /* destination QP does not exist */                                \
  X(rx_drop_qp_state)        /* the QP's state takes no such packet */                          \
  X(rx_drop_wrong_service)   /* transport service of the opcode is not the QP's */              \
  X(rx_drop_pkey)            /* P_Key does not match */                                         \
  X(rx_drop_wrong_peer)      /* source address is not that of the connected peer */             \
  X(rx_drop_stale_response)  /* responses to nothing outstanding */                             \
  X(rx_drop_out_of_sequence) /* requests out of sequence after the NAK was sent */              \
  X(rx_drop_qkey)            /* Q_Key does not match (UD) */                                    \
  X(rx_drop_message)         /* UC and UD requests that are not allowed or don't fit */         \
  X(rx_drop_duplicate)       /* duplicates of READs or atomics no longer kept for replay */     \
  X(rx_fpdu_err)             /* FPDUs with a wrong CRC or marker (iWARP) */                     \
  X(sent_terminates)         /* TERMINATE messages sent (iWARP) */                              \
  X(rcvd_terminates)         /* TERMINATE messages received (iWARP) */                          \
  X(cq_overflow)             /* completions that met a full queue */                            \
  X(async_event_overflow)    /* events that nobody fetched in time */

enum class Counter : std::uint8_t {
#define VERBENA_COUNTER_ENUMERATOR(name) name,
  VERBENA_COUNTERS(VERBENA_COUNTER_ENUMERATOR)
#undef VERBENA_COUNTER_ENUMERATOR
};

inline constexpr std::array counter_names = {
#define VERBENA_COUNTER_NAME(name) std::string_view(#name),
    VERBENA_COUNTERS(VERBENA_COUNTER_NAME)
#undef VERBENA_COUNTER_NAME
};

inline constexpr std::size_t counter_count = counter_names.size();

/// All counters of one port, or of one queue pair of it. Plain numbers: whoever reads them while
/// the NIC runs copies them under the engine's lock.
class Counters {
 public:
  using Values = std::array<std::uint64_t, counter_count>;

  Counters() = default;
  /// Those of a queue pair: what is added here is added to the port's as well. `port` must outlive
  /// this.
  explicit Counters(Counters* port) : port_(port) {}

  void add(Counter counter, std::uint64_t n = 1) {
    add_here(counter, n);
    if (port_ != nullptr) {
      port_->add_here(counter, n);
    }
  }
  /// For what the port counted before it knew whose it is.
  void add_here(Counter counter, std::uint64_t n = 1) { values_[index(counter)] += n; }

  [[nodiscard]] std::uint64_t operator[](Counter counter) const { return values_[index(counter)]; }
  /// In the order of `counter_names`.
  [[nodiscard]] const Values& values() const { return values_; }

 private:
  static constexpr std::size_t index(Counter counter) { return static_cast<std::size_t>(counter); }
  Values values_{};
  Counters* port_ = nullptr;
};

}  // namespace verbena
