// The path view through a user and mount namespace of the program's own, which needs no privilege
// where the system permits user namespaces.
#pragma once

#include <string>

#include "base/result.h"

namespace verbena::cli {

/// Moves this process, which must have one thread, into namespaces in which the files of the tree
/// at `root` (view_tree.h) are in their places. The user stays who they are. The error says what to
/// do.
[[nodiscard]] Result<void, std::string> enter_view_namespace(const std::string& root);

}  // namespace verbena::cli
