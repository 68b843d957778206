// Why a capture file can't be opened, read or written, as a sentence for the user.
#pragma once

#include <string>

namespace verbena::pcap {

struct FileError {
  /// A whole sentence without a full stop that names the file: "trace.pcapng: can't write: No space
  /// left on device".
  std::string text;
  /// The errno behind it (EPIPE: the reader of a pipe went away), 0 if none.
  int error_number = 0;
};

}  // namespace verbena::pcap
