#include "ports/log.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "ports/device_config.h"
#include "ports/sys.h"

namespace verbena::ports {

void report(std::string_view sentence) {
  const char* level = secure_getenv(env::log);
  if (level != nullptr && std::string_view(level) == "off") {
    return;
  }
  const std::string line = "verbena: " + std::string(sentence) + "\n";
  sys::write_all(STDERR_FILENO, line.data(), line.size());
}

}  // namespace verbena::ports
