// The options that describe devices, for `verbena run` and `verbena devices`: one for each variable
// of the table in ports/device_config.h, so that options, variables and help are the same thing.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ports/device_config.h"

// CLI11 is slow to compile.
namespace CLI {  // NOLINT(readability-identifier-naming): the library chose it
class App;
}

namespace verbena::cli {

class DeviceOptions {
 public:
  /// Adds an option for each variable that has one, but for `except` (a variable's name). Must
  /// outlive the parsing.
  void add_to(CLI::App& command, std::string_view except = {});

  /// Adds those of `variables` only.
  void add_only(CLI::App& command, std::span<const char* const> variables);

  /// The options that were given, by the variable that they set.
  [[nodiscard]] const std::map<std::string, std::string>& values() const { return values_; }
  /// Changes what an option said, or says what it didn't.
  void set(const std::string& variable, std::string value) { values_[variable] = std::move(value); }
  /// The value of an option or else of the process's variable; empty if neither is set.
  [[nodiscard]] std::string value_of(const char* variable) const;
  /// The devices that the options describe. The error is a sentence in the words of the command
  /// line.
  [[nodiscard]] Result<std::vector<ports::DeviceConfig>, std::string> load_devices() const;
  /// The environment that a program sees: this process's, with the options in front.
  [[nodiscard]] ports::Environment environment() const;

 private:
  void add(CLI::App& command, const ports::EnvironmentVariable& variable);
  /// Names the option that was given instead of the variable.
  [[nodiscard]] std::string in_words_of_options(std::string error) const;

  std::map<std::string, std::string> values_;
};

/// The files of the devices' fabrics, each once.
[[nodiscard]] std::set<std::string> fabrics_of(std::span<const ports::DeviceConfig> devices);

}  // namespace verbena::cli
