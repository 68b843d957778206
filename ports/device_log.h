// What a device says of itself with VERBENA_LOG: states of its queue pairs and their reasons, and
// frames that it refuses.
#pragma once

#include <string>

#include "base/bytes.h"
#include "nic_model/nic.h"
#include "proto/verdict.h"

namespace verbena::ports {

class DeviceLog final : public nic::NicObserver {
 public:
  explicit DeviceLog(std::string device_name) : device_name_(std::move(device_name)) {}

  /// With `info`.
  void on_qp_change(const nic::Qp& qp, const nic::QpChange& change) override;
  /// With `debug`: unless the frame was simply accepted.
  void on_verdict(ByteView frame, const RxVerdict& verdict) const;

 private:
  std::string device_name_;
};

/// "a request completed with retry_exc_err"; empty for what the program itself wanted.
[[nodiscard]] std::string describe(const nic::QpChange& change);

}  // namespace verbena::ports
