// A capture that is being written: one file for all devices of a process that name the same one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "pcap/pcapng_writer.h"

namespace verbena::ports {

class CaptureFile {
 public:
  /// The open capture of that name, or a new one. The error is a sentence.
  [[nodiscard]] static Result<std::shared_ptr<CaptureFile>, std::string> open(
      const std::string& path);
  explicit CaptureFile(pcap::PcapngWriter writer);
  /// Writes out the rest.
  ~CaptureFile();

  [[nodiscard]] pcap::InterfaceId add_interface(std::string_view name,
                                                std::string_view description);
  /// Any thread. A full disk or a broken pipe ends the capture with a message, not the program.
  /// `record.time` is set here, from `time` on the engine's clock.
  void write(pcap::Record record, Time time);
  void flush();
  /// For the child of a fork(): the file belongs to the parent.
  void abandon();

 private:
  void end_if_failed(const Result<void, pcap::FileError>& result);

  std::mutex mutex_;
  pcap::PcapngWriter writer_;
  /// Wall-clock time of the zero of the engine's clock.
  pcap::UnixTime epoch_;
  bool ended_ = false;
  bool unflushed_ = false;
};

}  // namespace verbena::ports
