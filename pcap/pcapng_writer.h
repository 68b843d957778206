// Writes pcapng files that Wireshark, tshark, libpcap and our own reader open: to a file, a FIFO or
// standard output, without ever seeking.
//
// Format: draft-ietf-opsawg-pcapng. A file is one section: a section header block, an interface
// description block per interface (Ethernet, nanoseconds, frames never cut), an enhanced packet
// block per frame, and at close an interface statistics block per interface. Numbers are in the
// machine's byte order, as the format asks. No custom blocks: Wireshark shows them as frames.
//
// Not thread-safe: one writer belongs to one thread at a time. Nothing here needs a lock, because a
// file has one writer: see open().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "pcap/file_error.h"
#include "pcap/record.h"

namespace verbena::pcap {

/// Who captured, for the section header. Empty texts are left out.
struct SectionInfo {
  std::string_view hardware{};
  std::string_view os{};
  std::string_view application = "Verbena";
};

/// An interface, for its description block. Empty texts are left out.
struct InterfaceInfo {
  std::string_view name{};
  std::string_view description{};
};

/// Frames that an interface received, and lost before they could be captured.
struct InterfaceStatistics {
  UnixTime time{};
  std::uint64_t received_packets = 0;
  std::uint64_t dropped_packets = 0;
};

class PcapngWriter {
 public:
  /// The buffer is written out by itself when it holds more than this.
  static constexpr std::size_t flush_threshold_bytes = 256 * 1024;

  /// Opens `path` for writing and buffers the section header. "-" is standard output.
  ///
  /// A capture is never written over by accident, and two processes never mix theirs:
  /// - A regular file is taken when it is new or empty and no other writer has it open. Otherwise
  ///   the process ID, and then a number, goes before the extension until a free name is found:
  ///   trace.pcapng, trace.4711.pcapng, trace.4711.2.pcapng. path() tells which it became.
  /// - A pipe or device has no second name: a second writer gets an error. Opening a FIFO waits for
  ///   its reader, as it does for every program.
  ///
  /// New files have mode 0600: a capture holds the program's data.
  [[nodiscard]] static Result<PcapngWriter, FileError> open(const std::string& path,
                                                            const SectionInfo& section);

  /// Writes to a descriptor that it owns from now on. `name` stands for it in error texts.
  [[nodiscard]] static PcapngWriter from_fd(int fd, std::string name, const SectionInfo& section);

  PcapngWriter(PcapngWriter&& other) noexcept;
  PcapngWriter& operator=(PcapngWriter&& other) noexcept;
  /// Closes the descriptor. What was not flushed is lost: call close() first.
  ~PcapngWriter();

  /// Buffers the description of one more interface.
  [[nodiscard]] InterfaceId add_interface(const InterfaceInfo& info);

  /// Buffers one frame; writes the buffer out when it has grown past flush_threshold_bytes.
  /// record.interface must come from add_interface().
  [[nodiscard]] Result<void, FileError> write(const Record& record);

  /// Buffers an interface statistics block: at the end, or now and then.
  void write_statistics(InterfaceId interface, const InterfaceStatistics& statistics);

  /// Hands all buffered blocks to the system, with one write(2) unless the system takes less: then
  /// a reader of the pipe or file sees whole blocks only. A pipe that is full makes it wait.
  /// SIGPIPE is never raised: a reader that left is the error EPIPE.
  ///
  /// After an error the writer is closed; every later call gives the same error.
  [[nodiscard]] Result<void, FileError> flush();

  /// flush(), then closes the descriptor.
  [[nodiscard]] Result<void, FileError> close();

  /// The name of the file that is written, which open() may have changed.
  [[nodiscard]] const std::string& path() const { return path_; }

  /// For the child of a fork(): closes the descriptor and forgets the buffer, so that the parent's
  /// blocks are not written twice.
  void abandon() noexcept;

 private:
  PcapngWriter(int fd, std::string path, const SectionInfo& section);

  int fd_ = -1;
  std::string path_;
  std::vector<std::byte> buffer_;
  std::uint32_t interface_count_ = 0;
  FileError error_;
};

}  // namespace verbena::pcap
