#include "bench/core/operations.h"

#include <memory>
#include <vector>

#include "base/check.h"
#include "base/crc.h"
#include "bench/core/two_nics.h"
#include "proto/ib_bth/emit.h"
#include "proto/ib_bth/packet.h"
#include "proto/roce/decap.h"
#include "proto/roce/encap.h"
#include "proto/roce/gid.h"

namespace verbena::bench {

namespace {

/// Keeps the compiler from leaving out what nobody looks at.
template <class T>
void use(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i * 7);
  }
  return bytes;
}

roce::Encapsulation encapsulation() {
  roce::Path path;
  path.source = roce::gid_from_ipv4({{10, 0, 0, 1}});
  path.destination = roce::gid_from_ipv4({{10, 0, 0, 2}});
  return roce::Encapsulation(path);
}

/// Writes a whole frame: headers, payload, ICRC.
class Emitter {
 public:
  Emitter(ib::Opcode opcode, std::size_t bytes)
      : payload_(some_bytes(bytes)),
        transport_bytes_(ib::transport_size(opcode, bytes)),
        frame_(encapsulation_.frame_bytes(transport_bytes_)) {
    fields_.opcode = opcode;
    fields_.reth = ib::Reth(Va{0x1000}, Rkey{1}, static_cast<std::uint32_t>(bytes));
  }

  void emit() {
    encapsulation_.write_prefix(frame_, transport_bytes_);
    ib::emit_packet(MutableBytes(frame_).subspan(encapsulation_.prefix_bytes()), fields_, payload_);
    encapsulation_.finish(frame_, transport_bytes_);
    fields_.psn = fields_.psn.next();
    use(frame_.data());
  }

  [[nodiscard]] const std::vector<std::byte>& frame() const { return frame_; }

 private:
  roce::Encapsulation encapsulation_ = encapsulation();
  ib::PacketFields fields_;
  std::vector<std::byte> payload_;
  std::size_t transport_bytes_;
  std::vector<std::byte> frame_;
};

Operation crc(std::size_t bytes) {
  return {"crc32/" + std::to_string(bytes), bytes,
          [bytes] { return [data = some_bytes(bytes)] { use(crc32(0, data)); }; }};
}

Operation emit(const char* what, ib::Opcode opcode, std::size_t bytes) {
  return {"emit_" + std::string(what) + "/" + std::to_string(bytes), bytes, [=] {
            auto emitter = std::make_shared<Emitter>(opcode, bytes);
            return [emitter] { emitter->emit(); };
          }};
}

Operation parse(const char* what, ib::Opcode opcode, std::size_t bytes) {
  return {"parse_" + std::string(what) + "/" + std::to_string(bytes), bytes, [=] {
            Emitter emitter(opcode, bytes);
            emitter.emit();
            return [frame = emitter.frame()] {
              const auto roce_frame = roce::parse_frame(frame);
              VERBENA_CHECK(roce_frame && roce_frame->icrc_is_good());
              const auto packet = ib::PacketView::parse(roce_frame->transport);
              VERBENA_CHECK(packet);
              use(packet->psn().value());
            };
          }};
}

Operation message(const char* what, WrOpcode opcode, std::uint32_t bytes) {
  return {"message_" + std::string(what) + "/" + std::to_string(bytes), bytes, [=] {
            auto nics = std::make_shared<TwoNics>();
            return [nics, opcode, bytes] { nics->exchange(opcode, bytes); };
          }};
}

std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  for (const std::size_t bytes : {64U, 256U, 1024U, 4096U}) {
    all.push_back(crc(bytes));
  }
  all.push_back(emit("ack", ib::Opcode::rc_acknowledge, 0));
  all.push_back(emit("send", ib::Opcode::rc_send_only, 64));
  all.push_back(emit("write", ib::Opcode::rc_write_only, 4096));
  all.push_back(parse("ack", ib::Opcode::rc_acknowledge, 0));
  all.push_back(parse("send", ib::Opcode::rc_send_only, 64));
  all.push_back(parse("write", ib::Opcode::rc_write_only, 4096));
  all.push_back(message("send", WrOpcode::send, 64));
  all.push_back(message("write", WrOpcode::rdma_write, 64));
  all.push_back(message("write", WrOpcode::rdma_write, 4096));
  all.push_back(message("write", WrOpcode::rdma_write, 65536));
  all.push_back(message("read", WrOpcode::rdma_read, 4096));
  return all;
}

}  // namespace

std::span<const Operation> operations() {
  static const std::vector<Operation> all = all_operations();
  return all;
}

}  // namespace verbena::bench
