// Where the lab is, and what of it is there: the guest that `verbena lab build` made, and what of
// ours goes into it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace verbena::cli {

struct LabPlaces {
  /// Of this user: VERBENA_LAB, or else verbena/lab in the user's cache directory.
  std::filesystem::path cache;
  /// What the guest sees as /tools: scripts, and the conformance program. Part of Verbena.
  std::filesystem::path tools;

  [[nodiscard]] std::filesystem::path guest() const { return cache / "guest"; }
  /// Held by who builds or removes the guest.
  [[nodiscard]] std::filesystem::path lock() const { return cache / "lock"; }
  /// Shared by those whose guest runs, so that nobody replaces what it runs from.
  [[nodiscard]] std::filesystem::path users() const { return cache / "users"; }
};

/// The error is a sentence: there is no home, or our own files are missing.
[[nodiscard]] Result<LabPlaces, std::string> lab_places();

/// Is there a guest, made by the scripts that we have now?
enum class LabState : std::uint8_t { missing, outdated, ready };
[[nodiscard]] LabState lab_state(const LabPlaces& places);

/// Notes in the guest which scripts made it.
void stamp_guest(const LabPlaces& places, const std::filesystem::path& guest);

/// The guest's kernel, "6.1.0-57-amd64"; empty if there is no guest.
[[nodiscard]] std::string guest_kernel(const LabPlaces& places);

/// Debian packages that building and running need and that aren't installed.
[[nodiscard]] std::vector<std::string> missing_lab_packages();

/// How the guest's instructions are executed: "kvm" or "tcg" as a trial found, nullopt before one.
[[nodiscard]] std::optional<std::string> remembered_accelerator(const LabPlaces& places);
void remember_accelerator(const LabPlaces& places, const std::string& accelerator);

}  // namespace verbena::cli
