// Whether a guest that boots still gets on, however slow the machine is: it says something on its
// console with each step.
#pragma once

#include <chrono>
#include <cstdint>

namespace verbena::cli {

/// No step of a boot takes that long, on a machine that is taken several times over (20 s were
/// seen without KVM).
inline constexpr std::chrono::seconds boot_silence_limit{90};
/// And a boot as a whole (5 to 45 s were seen): a kernel that stalls may complain for ever.
inline constexpr std::chrono::seconds boot_limit{300};

class BootWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit BootWatch(Time start) : start_(start), heard_(start) {}

  /// To be asked every now and then; `console_bytes` is how much the guest has said so far.
  [[nodiscard]] bool is_stuck(Time now, std::uintmax_t console_bytes) {
    if (console_bytes != console_bytes_) {
      console_bytes_ = console_bytes;
      heard_ = now;
    }
    return now - heard_ > boot_silence_limit || now - start_ > boot_limit;
  }

 private:
  Time start_;
  Time heard_;
  std::uintmax_t console_bytes_ = 0;
};

}  // namespace verbena::cli
