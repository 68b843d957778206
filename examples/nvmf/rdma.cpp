#include "examples/nvmf/rdma.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

namespace nvmf {

void fail(const std::string& what, int error) { throw Failure(what + ": " + std::strerror(error)); }

void expect_zero(int result, const char* what) {
  if (result != 0) {
    fail(what, errno);
  }
}

Region::Region(ibv_pd* pd, std::span<std::uint8_t> memory, int access)
    : mr_(expect_some(ibv_reg_mr(pd, memory.data(), memory.size(), access), "registering memory")) {
}

ibv_sge Region::sge(std::span<const std::uint8_t> part) const {
  return {.addr = reinterpret_cast<std::uintptr_t>(part.data()),
          .length = static_cast<std::uint32_t>(part.size()),
          .lkey = mr_->lkey};
}

Pieces::Pieces(ibv_pd* pd, std::size_t count, std::size_t bytes, int access)
    : bytes_(bytes), memory_(count * bytes), region_(pd, memory_, access) {}

std::span<std::uint8_t> Pieces::operator[](std::size_t index) {
  return std::span(memory_).subspan(index * bytes_, bytes_);
}

sockaddr_storage parse_address(const std::string& text, std::uint16_t port) {
  sockaddr_storage storage{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
  } else if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
  } else {
    throw Failure("'" + text + "' is no address; give one in numbers, as 127.0.0.1 or ::1");
  }
  return storage;
}

std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof text);
  }
  return text;
}

std::uint16_t port_of(const sockaddr* address) {
  // At the same place for both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port);
}

bool is_iwarp(const ibv_context* context) {
  return context->device->transport_type == IBV_TRANSPORT_IWARP;
}

}  // namespace nvmf
