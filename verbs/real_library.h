// The host's own libibverbs, in this process beside us: loaded when VERBENA_REAL_DEVICES asks for
// it, when the program first asks for devices. docs/real-devices.md has the whole picture.
//
// It has our name and our symbols. RTLD_DEEPBIND lets its own calls find its own functions; the
// provider plug-ins that it loads bind to us instead, for we were first, and get to it by the
// trampolines of private_node.cpp. Providers that the program itself links (libmlx5 of perftest)
// register before anybody knows whether the library will be needed: that is remembered, and told.
//
// It stays for the life of the process.
#pragma once

#include <span>
#include <string>

#include "ports/real_devices.h"

namespace verbena::verbs {

/// Loads the real library if it is wanted and can be. Why it can't be the user is told. Not to be
/// called twice, nor by two threads.
void load_real_library(const ports::RealDevices& real);

/// Where a symbol of the private node leads: a trampoline of ours jumps to where `target` points.
struct PrivateSymbol {
  const char* name;
  void (**target)();
};

/// All of them; private_node.cpp has the table.
[[nodiscard]] std::span<const PrivateSymbol> private_symbols();

/// Tells the real library, of which private_symbols() know now, of the providers that registered
/// before.
void register_waiting_providers();

/// As the real library sets its own, of which providers see ours.
void allow_disassociate_destroy();

}  // namespace verbena::verbs
