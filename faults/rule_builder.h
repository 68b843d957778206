// Builds a rule key by key, whatever form the keys come in. Internal to faults/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "faults/parse.h"
#include "faults/rule.h"

namespace verbena::faults {

class RuleBuilder {
 public:
  explicit RuleBuilder(const HostResolver& resolve) : resolve_(resolve) {}

  /// Both answer with a sentence if the key or the value is wrong.
  [[nodiscard]] Result<void, std::string> set_action(std::string_view name);
  [[nodiscard]] Result<void, std::string> set(std::string_view key, std::string_view value);
  /// The finished rule, or what doesn't fit together in it.
  [[nodiscard]] Result<Rule, std::string> finish(std::string text);

 private:
  struct Key;
  static const Key keys[];

  const HostResolver& resolve_;
  Rule rule_;
  bool has_action_ = false;
  /// Keys that only some actions take, by their position in `keys`.
  std::uint64_t keys_seen_ = 0;
};

}  // namespace verbena::faults
