// Classic pcap files, through libpcap.
#pragma once

#include <memory>

#include "base/result.h"
#include "pcap/byte_source.h"
#include "pcap/reader.h"

namespace verbena::pcap {

class ClassicReader final : public PacketSource {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ClassicReader>, ReadError> open(ByteSource bytes);
  ~ClassicReader() override;

  Result<std::optional<Packet>, ReadError> next() override;

 private:
  struct Handle;
  explicit ClassicReader(std::unique_ptr<Handle> handle);

  /// libpcap's handle, and the source that it reads from: at a stable address.
  std::unique_ptr<Handle> handle_;
};

}  // namespace verbena::pcap
