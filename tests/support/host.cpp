#include "tests/support/host.h"

#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>
#include <new>

#include "proto/roce/gid.h"

namespace verbena::test {

namespace {

constexpr std::align_val_t page{4096};

nic::NicConfig config_of(const inet::Ipv4Address& address, const HostOptions& options) {
  nic::NicConfig config;
  config.technology = options.technology;
  config.node_guid = 1;
  config.mtu_max = options.mtu_max;
  using Type = nic::GidEntry::Type;
  const Gid ipv4 = roce::gid_from_ipv4(address);
  const Gid link_local = roce::gid_link_local(nic::mac_of(address));
  config.gids = {{.gid = ipv4},
                 {.gid = link_local},
                 {.gid = ipv4, .type = Type::roce_v1},
                 {.gid = link_local, .type = Type::roce_v1}};
  for (nic::GidEntry& row : config.gids) {
    row.vlan = options.vlan;
  }
  config.pager = options.pager;
  config.persistent_store = options.persistent_store;
  return config;
}

const char* name_of(WcOpcode opcode) {
  switch (opcode) {
    case WcOpcode::send:
      return "send";
    case WcOpcode::rdma_write:
      return "write";
    case WcOpcode::rdma_read:
      return "read";
    case WcOpcode::comp_swap:
      return "comp_swap";
    case WcOpcode::fetch_add:
      return "fetch_add";
    case WcOpcode::bind_mw:
      return "bind_mw";
    case WcOpcode::local_inv:
      return "local_inv";
    case WcOpcode::flush:
      return "flush";
    case WcOpcode::atomic_write:
      return "atomic_write";
    case WcOpcode::recv:
      return "recv";
    case WcOpcode::recv_rdma_with_imm:
      return "recv_write_imm";
  }
  return "?";
}

}  // namespace

Memory::Memory(std::size_t size) : pages_(new(page) std::byte[size]()), size_(size) {}

void Memory::Free::operator()(std::byte* pages) const { ::operator delete[](pages, page); }

Host::Host(std::uint8_t number, const HostOptions& options)
    : address{{10, 0, 0, number}},
      memory(options.memory_bytes),
      nic(*options.profile, config_of(address, options), options.seed) {
  nic.add_qpn_block(options.first_qpn, options.qpn_count);
  pd = nic.alloc_pd().value();
  cq = nic.create_cq(options.cqe, 0).value();
  const Va first{std::uint64_t{number} << 32};
  mr = nic.reg_mr(*pd, bytes().data(), bytes().size(), first, all_access).value();
  fill(number);
}

Gid Host::gid() const { return roce::gid_from_ipv4(address); }

void Host::fill(unsigned salt) {
  std::uint32_t state = salt * 0x9E37'79B9U + 1;
  for (std::byte& byte : bytes()) {
    // A linear congruential generator: cheap enough to fill megabytes under a sanitizer.
    state = state * 1'664'525U + 1'013'904'223U;
    byte = static_cast<std::byte>(state >> 24);
  }
}

Work Host::work(std::uint64_t id, WrOpcode opcode, Piece local) const {
  Work work;
  work.wr_id = id;
  work.opcode = opcode;
  work.signaled = true;
  work.pieces = {sge(local)};
  return work;
}

Work Host::send(std::uint64_t id, Piece from) const { return work(id, WrOpcode::send, from); }

Work Host::send_imm(std::uint64_t id, Piece from, std::uint32_t imm) const {
  Work with_imm = work(id, WrOpcode::send_with_imm, from);
  with_imm.imm = ImmData{imm};
  return with_imm;
}

Work Host::write(std::uint64_t id, Piece from, const Host& peer, std::uint64_t to) const {
  Work write = work(id, WrOpcode::rdma_write, from);
  write.remote_addr = peer.va(to);
  write.rkey = peer.mr->rkey;
  return write;
}

Work Host::write_imm(std::uint64_t id, Piece from, const Host& peer, std::uint64_t to,
                     std::uint32_t imm) const {
  Work with_imm = write(id, from, peer, to);
  with_imm.opcode = WrOpcode::rdma_write_with_imm;
  with_imm.imm = ImmData{imm};
  return with_imm;
}

Work Host::read(std::uint64_t id, Piece into, const Host& peer, std::uint64_t from) const {
  Work read = write(id, into, peer, from);
  read.opcode = WrOpcode::rdma_read;
  return read;
}

Work Host::fetch_add(std::uint64_t id, std::uint64_t into, const Host& peer, std::uint64_t at,
                     std::uint64_t addend) const {
  Work atomic = write(id, {into, 8}, peer, at);
  atomic.opcode = WrOpcode::atomic_fetch_and_add;
  atomic.compare_add = addend;
  return atomic;
}

Work Host::compare_swap(std::uint64_t id, std::uint64_t into, const Host& peer, std::uint64_t at,
                        std::uint64_t compare, std::uint64_t swap) const {
  Work atomic = write(id, {into, 8}, peer, at);
  atomic.opcode = WrOpcode::atomic_cmp_and_swp;
  atomic.compare_add = compare;
  atomic.swap = swap;
  return atomic;
}

std::vector<Completion> Host::poll() {
  std::vector<Completion> all;
  std::array<Completion, 64> some;
  while (const std::uint32_t count = cq->poll(some)) {
    all.insert(all.end(), some.begin(), some.begin() + count);
  }
  return all;
}

std::vector<std::string> Host::completions() {
  std::vector<std::string> texts;
  for (const Completion& completion : poll()) {
    texts.push_back(to_text(completion));
  }
  return texts;
}

std::vector<std::string> Host::events() {
  std::vector<std::string> names;
  while (const auto event = nic.poll_event()) {
    names.emplace_back(nic::name_of(event->type));
  }
  return names;
}

std::string to_text(const Completion& completion) {
  std::string text = fmt::format("{} {} {}", completion.wr_id, name_of(completion.opcode),
                                 name_of(completion.status));
  const bool is_recv =
      completion.opcode == WcOpcode::recv || completion.opcode == WcOpcode::recv_rdma_with_imm;
  if (is_recv && completion.status == WcStatus::success) {
    text += fmt::format(" +{}", completion.byte_len);
  }
  if (completion.with_imm) {
    text += fmt::format(" imm {}", completion.imm_or_rkey);
  }
  return text;
}

std::uint64_t load_u64(ByteView bytes, std::uint64_t offset) {
  return read_struct<std::uint64_t>(bytes.subspan(offset));
}

void store_u64(MutableBytes bytes, std::uint64_t offset, std::uint64_t value) {
  write_struct(bytes.subspan(offset), value);
}

}  // namespace verbena::test
