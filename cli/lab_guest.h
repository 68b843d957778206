// Boots the guest of the lab, runs a command in it, and tells how both ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/lab_places.h"

namespace verbena::cli {

/// What to run, and on what machine.
struct GuestPlan {
  /// A line for the guest's shell.
  std::string command;
  /// A UNIX socket that carries the frames of the guest's first interface, eth0; none if empty. If
  /// somebody listens there, the guest connects; else the guest listens.
  std::filesystem::path link;
  /// QEMU's own words for more interfaces (-netdev without id).
  std::vector<std::string> more_interfaces;
  /// TCP ports of this host's loopback address that lead to ports of the guest.
  std::vector<std::pair<std::uint16_t, std::uint16_t>> forwards;
  /// The guest's /share, where the command begins; may be empty.
  std::filesystem::path share;
  /// Where the command's output goes, standard error too; ours if empty.
  std::filesystem::path output;
  /// Of the command, from when the guest is up.
  std::chrono::seconds limit{120};
  /// "kvm" or "tcg".
  std::string accelerator = "tcg";
};

enum class GuestEnd : std::uint8_t {
  /// The command ended; its status is known.
  done,
  /// The guest came up, and the command took longer than it may.
  timed_out,
  /// The guest didn't come up, in time or at all: QEMU's or the guest kernel's fault, or the
  /// machine's, which is too slow.
  stalled,
  /// It came up, and ended before its command did.
  died,
};

struct GuestResult {
  GuestEnd end = GuestEnd::died;
  /// Of the command.
  int status = 0;
  /// The last lines of the guest's console if it isn't `done`; QEMU's own complaint.
  std::string console;
  std::chrono::milliseconds took{};
};

/// A guest that runs. It is switched off when this object goes.
class Guest {
 public:
  /// The error is a sentence.
  [[nodiscard]] static Result<Guest, std::string> boot(const LabPlaces& places, GuestPlan plan);

  /// Waits until the command has ended or its time is over.
  [[nodiscard]] GuestResult wait();
  /// Waits until the command begins; false if it doesn't.
  [[nodiscard]] bool wait_until_up();
  /// Has the command ended with 0 before `limit`, boot included?
  [[nodiscard]] bool ends_well(std::chrono::milliseconds limit);

  Guest(Guest&&) noexcept;
  Guest& operator=(Guest&&) = delete;
  ~Guest();

 private:
  struct State;
  explicit Guest(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// Boots, waits; boots once more if the guest stalled, and says so on standard error. The error is
/// a sentence.
[[nodiscard]] Result<GuestResult, std::string> run_in_guest(const LabPlaces& places,
                                                            const GuestPlan& plan);

/// What a result other than `done` means, in a sentence and the end of the console.
[[nodiscard]] std::string in_words(const GuestResult& result, const GuestPlan& plan);

/// Finds out whether KVM works here, by a short trial unless one was made before.
[[nodiscard]] std::string choose_accelerator(const LabPlaces& places);

}  // namespace verbena::cli
