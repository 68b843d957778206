// What people write: fault rules, configuration files, scenarios. The first byte chooses; the rest
// is taken or refused with a sentence.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "faults/parse.h"
#include "ports/config_file.h"
#include "sim/scenario/scenario.h"

namespace verbena {
namespace {

constexpr unsigned kinds = 4;

void check_text(unsigned kind, std::string_view text) {
  if (kind == 0) {
    if (const auto rule = faults::parse_rule(text); !rule) {
      VERBENA_CHECK(rule.error().offset <= text.size());
      VERBENA_CHECK(!faults::explain(text, rule.error()).empty());
    }
  } else if (kind == 1) {
    const auto rules = faults::parse_rules_file(text, "rules.toml");
    VERBENA_CHECK(rules || rules.error().starts_with("rules.toml:"));
  } else if (kind == 2) {
    const auto devices = ports::parse_config_file(text, "devices.toml");
    VERBENA_CHECK(devices || devices.error().starts_with("devices.toml:"));
  } else {
    const auto scenarios = sim::load_scenarios(text, "scenario.toml");
    VERBENA_CHECK(scenarios || scenarios.error().starts_with("scenario.toml:"));
  }
}

}  // namespace
}  // namespace verbena

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) {
    verbena::check_text(data[0] % verbena::kinds,
                        std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  }
  return 0;
}
