#include "ports/reactor.h"

#include <fmt/format.h>
#include <pthread.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <utility>

#include "ports/own_thread.h"
#include "ports/sys.h"

namespace verbena::ports {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

struct Reactor::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  pthread_t thread{};

  static void* thread_entry(void* self) {
    static_cast<Impl*>(self)->context.run();
    return nullptr;
  }
};

struct Reactor::Waiter::Impl {
  Impl(asio::io_context& context, Handler its_handler)
      : descriptor(context), timer(context), handler(std::move(its_handler)) {}

  asio::posix::stream_descriptor descriptor;
  asio::steady_timer timer;
  Handler handler;

  /// The handler is copied: it may run when the waiter is gone.
  [[nodiscard]] auto completion() const {
    return [call = handler](const ErrorCode& error) {
      if (error != asio::error::operation_aborted) {
        call();
      }
    };
  }
};

Reactor::Waiter::Waiter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Reactor::Waiter::~Waiter() { static_cast<void>(impl_->descriptor.release()); }

void Reactor::Waiter::await_input() {
  impl_->descriptor.async_wait(asio::posix::descriptor_base::wait_read, impl_->completion());
}

void Reactor::Waiter::await_room() {
  impl_->descriptor.async_wait(asio::posix::descriptor_base::wait_write, impl_->completion());
}

void Reactor::Waiter::await_time(Duration from_now) {
  impl_->timer.expires_after(from_now);
  impl_->timer.async_wait(impl_->completion());
}

void Reactor::Waiter::forget_time() { impl_->timer.cancel(); }

Result<std::unique_ptr<Reactor>, std::string> Reactor::open(const char* name) {
  std::unique_ptr<Impl> impl;
  try {
    impl = std::make_unique<Impl>();
  } catch (const boost::system::system_error& error) {
    return std::unexpected(fmt::format("can't make what sockets are waited for with: {}",
                                       sys::error_text(error.code().value())));
  }
  const auto thread = start_own_thread(name, &Impl::thread_entry, impl.get());
  if (!thread) {
    return std::unexpected(
        fmt::format("can't start the thread {}: {}", name, sys::error_text(thread.error())));
  }
  impl->thread = *thread;
  return std::unique_ptr<Reactor>(new Reactor(std::move(impl)));
}

Reactor::Reactor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Reactor::~Reactor() = default;

void Reactor::stop() {
  impl_->context.stop();
  pthread_join(impl_->thread, nullptr);
}

Result<std::unique_ptr<Reactor::Waiter>, int> Reactor::watch(int socket, Handler handler) {
  auto impl = std::make_unique<Waiter::Impl>(impl_->context, std::move(handler));
  ErrorCode error;
  if (impl->descriptor.assign(socket, error)) {
    return std::unexpected(error.value());
  }
  return std::unique_ptr<Waiter>(new Waiter(std::move(impl)));
}

void Reactor::post(Handler handler) { asio::post(impl_->context, std::move(handler)); }

}  // namespace verbena::ports
