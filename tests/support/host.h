// One Nic with what nearly every test needs around it: a protection domain, a completion queue and
// registered memory. Addresses are the test's own, not the process's: runs are the same every time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "nic_model/nic.h"
#include "proto/inet/ip_address.h"

namespace verbena::test {

/// A piece of a host's memory, by offset.
struct Piece {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};

/// A send work request that owns its list of SGEs.
struct Work : SendWr {
  std::vector<Sge> pieces;
};

inline constexpr Access all_access =
    Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;

struct HostOptions {
  std::size_t memory_bytes = std::size_t{1} << 16;
  std::uint32_t cqe = 4096;
  Qpn first_qpn{0x11};
  std::uint32_t qpn_count = 64;
  std::uint64_t seed = 1;
  nic::Mtu mtu_max = nic::Mtu::mtu_4096;
  nic::Pager* pager = nullptr;
  nic::PersistentStore* persistent_store = nullptr;
  /// Of all its GIDs.
  std::optional<std::uint16_t> vlan{};
  const nic::DeviceProfile* profile = &nic::default_profile();
  nic::Technology technology = nic::Technology::roce;
};

/// Page-aligned memory, as an application's mostly is.
class Memory {
 public:
  explicit Memory(std::size_t size);
  [[nodiscard]] MutableBytes bytes() { return {pages_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* pages) const;
  };
  std::unique_ptr<std::byte[], Free> pages_;
  std::size_t size_;
};

struct Host {
  /// Its address is 10.0.0.`number`, its memory begins at VA `number` << 32.
  explicit Host(std::uint8_t number, const HostOptions& options = {});

  [[nodiscard]] Gid gid() const;
  /// Row `index` of its GID table.
  [[nodiscard]] Gid gid(std::uint8_t index) const { return nic.config().gids.at(index).gid; }
  [[nodiscard]] Va va(std::uint64_t offset = 0) const { return mr->iova + offset; }
  [[nodiscard]] Sge sge(Piece piece) const { return {va(piece.offset), piece.bytes, mr->lkey}; }
  /// The memory itself, and pieces of it.
  [[nodiscard]] MutableBytes bytes() { return memory.bytes(); }
  [[nodiscard]] MutableBytes bytes(std::uint64_t offset, std::size_t count) {
    return bytes().subspan(offset, count);
  }
  /// Fills the memory with a pattern that differs at every offset and for every salt.
  void fill(unsigned salt);

  // Work requests, signalled, whose wr_id is `id`. The remote end is `peer`'s memory.
  [[nodiscard]] Work send(std::uint64_t id, Piece from) const;
  [[nodiscard]] Work send_imm(std::uint64_t id, Piece from, std::uint32_t imm) const;
  [[nodiscard]] Work write(std::uint64_t id, Piece from, const Host& peer, std::uint64_t to) const;
  [[nodiscard]] Work write_imm(std::uint64_t id, Piece from, const Host& peer, std::uint64_t to,
                               std::uint32_t imm) const;
  [[nodiscard]] Work read(std::uint64_t id, Piece into, const Host& peer, std::uint64_t from) const;
  [[nodiscard]] Work fetch_add(std::uint64_t id, std::uint64_t into, const Host& peer,
                               std::uint64_t at, std::uint64_t addend) const;
  [[nodiscard]] Work compare_swap(std::uint64_t id, std::uint64_t into, const Host& peer,
                                  std::uint64_t at, std::uint64_t compare,
                                  std::uint64_t swap) const;

  /// All completions that wait.
  [[nodiscard]] std::vector<Completion> poll();
  /// The same as text: "1 send success", "7 recv success +2500 imm 5".
  [[nodiscard]] std::vector<std::string> completions();
  /// The names of all events that wait: "QP_ACCESS_ERR".
  [[nodiscard]] std::vector<std::string> events();
  [[nodiscard]] std::uint64_t count(Counter counter) const { return nic.counters()[counter]; }

  const inet::Ipv4Address address;
  Memory memory;
  nic::Nic nic;
  nic::Pd* pd = nullptr;
  nic::Cq* cq = nullptr;
  nic::Mr* mr = nullptr;

 private:
  [[nodiscard]] Work work(std::uint64_t id, WrOpcode opcode, Piece local) const;
};

[[nodiscard]] std::string to_text(const Completion& completion);

/// The 64-bit number at an offset of memory, as this host reads it.
[[nodiscard]] std::uint64_t load_u64(ByteView bytes, std::uint64_t offset = 0);
void store_u64(MutableBytes bytes, std::uint64_t offset, std::uint64_t value);

}  // namespace verbena::test
