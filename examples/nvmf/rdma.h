// What both ends need of verbs and rdma_cm: memory that is registered, errors in words, addresses.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace nvmf {

// Something that ends a connection, or the program, with a sentence for its user.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws a Failure: what failed, and why (an errno).
[[noreturn]] void fail(const std::string& what, int error);

// For calls that return 0 or -1 and set errno.
void expect_zero(int result, const char* what);

// For calls that return a pointer or nothing and set errno.
template <typename T>
T* expect_some(T* pointer, const char* what) {
  if (pointer == nullptr) {
    fail(what, errno);
  }
  return pointer;
}

// A C object and what ends it.
template <typename T, auto end>
struct Ends {
  void operator()(T* object) const { (void)end(object); }
};
template <typename T, auto end>
using Owned = std::unique_ptr<T, Ends<T, end>>;

using OwnedPd = Owned<ibv_pd, ibv_dealloc_pd>;
using OwnedCq = Owned<ibv_cq, ibv_destroy_cq>;
using OwnedMr = Owned<ibv_mr, ibv_dereg_mr>;
using OwnedCompChannel = Owned<ibv_comp_channel, ibv_destroy_comp_channel>;
using OwnedEventChannel = Owned<rdma_event_channel, rdma_destroy_event_channel>;
using OwnedId = Owned<rdma_cm_id, rdma_destroy_id>;

// An inline function of the header, which no template of ours may have as its argument.
struct EndsWindow {
  void operator()(ibv_mw* window) const { (void)ibv_dealloc_mw(window); }
};
using OwnedMw = std::unique_ptr<ibv_mw, EndsWindow>;

// Registers memory that somebody else owns, for as long as this lives.
class Region {
 public:
  Region(ibv_pd* pd, std::span<std::uint8_t> memory, int access);

  [[nodiscard]] ibv_sge sge(std::span<const std::uint8_t> part) const;
  [[nodiscard]] ibv_mr* mr() const { return mr_.get(); }

 private:
  OwnedMr mr_;
};

// Memory of its own, registered, in pieces of the same size.
class Pieces {
 public:
  Pieces(ibv_pd* pd, std::size_t count, std::size_t bytes, int access);

  [[nodiscard]] std::span<std::uint8_t> operator[](std::size_t index);
  [[nodiscard]] const Region& region() const { return region_; }

 private:
  std::size_t bytes_;
  std::vector<std::uint8_t> memory_;
  Region region_;
};

// A numeric address, IPv4 or IPv6.
sockaddr_storage parse_address(const std::string& text, std::uint16_t port);
std::string address_text(const sockaddr* address);
std::uint16_t port_of(const sockaddr* address);

// Of a device whose programs connect over TCP.
bool is_iwarp(const ibv_context* context);

}  // namespace nvmf
