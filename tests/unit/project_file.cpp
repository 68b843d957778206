#include "tests/unit/project_file.h"

namespace verbena::test {

std::string project_file(std::string_view name) {
  return std::string(VERBENA_PROJECT_DIR "/").append(name);
}

}  // namespace verbena::test
