// Where the files are that tests read.
#pragma once

#include <string>
#include <string_view>

namespace verbena::test {

/// The path of a file or folder of the project, `name` relative to its root
/// ("tests/data/captures"). One function and no macro, so that the path of a checkout is compiled
/// into one file only.
[[nodiscard]] std::string project_file(std::string_view name);

}  // namespace verbena::test
