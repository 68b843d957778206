// How the two programs end: with what went wrong as a sentence, if something did.
#pragma once

#include <cstdio>
#include <exception>

namespace nvmf {

/// Returns the exit status: what `run` returns, or 1 if it throws.
inline int run_program(const char* name, int (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace nvmf
