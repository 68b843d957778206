// What the exit status of `verbena` means.
#pragma once

namespace verbena::cli {

enum ExitStatus : int {
  exit_ok = 0,
  /// It was asked for something sensible and couldn't do it, or not to the end.
  exit_failed = 1,
  /// It was asked for something that makes no sense here: nothing was done.
  exit_usage = 2,
  /// `verbena run`: the command was found but can't be executed, or wasn't found (as in a shell).
  exit_cannot_execute = 126,
  exit_not_found = 127,
};

}  // namespace verbena::cli
