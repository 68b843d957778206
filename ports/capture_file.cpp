#include "ports/capture_file.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <cerrno>
#include <chrono>
#include <map>

#include "ports/log.h"

namespace verbena::ports {

namespace {

/// Open captures by the name under which they were asked for. Never destroyed: a capture may end in
/// an exit handler.
struct OpenCaptures {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<CaptureFile>> by_path;
};

OpenCaptures& open_captures() {
  static auto* const instance = new OpenCaptures;
  return *instance;
}

std::string operating_system() {
  utsname name{};
  return uname(&name) == 0 ? fmt::format("{} {}", name.sysname, name.release) : std::string();
}

/// Wall-clock time minus monotonic time. It is taken once: a capture whose clock is set while it
/// runs would go back in time.
pcap::UnixTime epoch_of_engine_clock() {
  namespace chrono = std::chrono;
  const chrono::nanoseconds wall = chrono::system_clock::now().time_since_epoch();
  const chrono::nanoseconds monotonic = chrono::steady_clock::now().time_since_epoch();
  return pcap::UnixTime(wall - monotonic);
}

}  // namespace

Result<std::shared_ptr<CaptureFile>, std::string> CaptureFile::open(const std::string& path) {
  const std::lock_guard guard(open_captures().mutex);
  auto& known = open_captures().by_path[path];
  if (auto file = known.lock()) {
    return file;
  }
  const std::string os = operating_system();
  auto writer = pcap::PcapngWriter::open(path, {.hardware = {}, .os = os});
  if (!writer) {
    return std::unexpected("no capture: " + writer.error().text);
  }
  if (writer->path() != path && path != "-") {
    report(fmt::format("{} exists: the capture goes to {}", path, writer->path()));
  }
  auto file = std::make_shared<CaptureFile>(std::move(*writer));
  known = file;
  return file;
}

CaptureFile::CaptureFile(pcap::PcapngWriter writer)
    : writer_(std::move(writer)), epoch_(epoch_of_engine_clock()) {}

CaptureFile::~CaptureFile() {
  if (!ended_) {
    end_if_failed(writer_.close());
  }
}

pcap::InterfaceId CaptureFile::add_interface(std::string_view name, std::string_view description) {
  const std::lock_guard guard(mutex_);
  const pcap::InterfaceId id = writer_.add_interface({.name = name, .description = description});
  if (!ended_) {
    end_if_failed(writer_.flush());
  }
  return id;
}

void CaptureFile::write(pcap::Record record, Time time) {
  const std::lock_guard guard(mutex_);
  if (ended_) {
    return;
  }
  record.time = epoch_ + time.time_since_epoch();
  unflushed_ = true;
  end_if_failed(writer_.write(record));
}

void CaptureFile::flush() {
  const std::lock_guard guard(mutex_);
  if (!ended_ && unflushed_) {
    unflushed_ = false;
    end_if_failed(writer_.flush());
  }
}

void CaptureFile::abandon() {
  // No lock: the thread that held it in the parent doesn't exist here.
  ended_ = true;
  writer_.abandon();
}

void CaptureFile::end_if_failed(const Result<void, pcap::FileError>& result) {
  if (result) {
    return;
  }
  ended_ = true;
  report(
      result.error().error_number == EPIPE
          ? fmt::format("the reader of the capture {} has gone: the capture ends", writer_.path())
          : "the capture ends: " + result.error().text);
}

}  // namespace verbena::ports
