// What a device says of itself with VERBENA_LOG: states of its queue pairs and their reasons, and
// frames that it refuses. What failed is told to the fabric's journal as well.
#pragma once

#include <string>

#include "base/bytes.h"
#include "nic_model/nic.h"
#include "ports/fabric.h"
#include "proto/verdict.h"

namespace verbena::ports {

class DeviceLog final : public nic::NicObserver {
 public:
  DeviceLog(std::string device_name, Fabric& fabric, const nic::Nic& nic)
      : device_name_(std::move(device_name)), fabric_(&fabric), nic_(nic) {}

  /// The fabric is about to be left.
  void leave_fabric() { fabric_ = nullptr; }

  /// With `info`.
  void on_qp_change(const nic::Qp& qp, const nic::QpChange& change) override;
  /// With `debug`: unless the frame was simply accepted.
  void on_verdict(ByteView frame, const RxVerdict& verdict) const;

 private:
  void note_failure(const nic::Qp& qp, const nic::QpChange& change) const;

  std::string device_name_;
  Fabric* fabric_;
  const nic::Nic& nic_;
};

/// "a request completed with retry_exc_err"; empty for what the program itself wanted.
[[nodiscard]] std::string describe(const nic::QpChange& change);

}  // namespace verbena::ports
