// `verbena run --capture FILE`: makes sure, before the program starts, that its capture will have a
// place.
#pragma once

#include <string>

#include "base/result.h"

namespace verbena::cli {

/// Prepares the capture that `wanted` names, and returns what VERBENA_CAPTURE must be set to. The
/// error is a sentence.
///
/// - A regular file is made empty, unless a running program is writing its capture there.
/// - "-" is our standard output, which the program must not share: from here on, its standard
/// output
///   is our standard error. Refused on a terminal.
/// - A FIFO or device is left alone; it only has to be writable.
[[nodiscard]] Result<std::string, std::string> prepare_capture(const std::string& wanted);

}  // namespace verbena::cli
