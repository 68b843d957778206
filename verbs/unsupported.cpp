// Public verbs that this device does not offer. Each says so in the way that it reports errors, so
// that programs can try and do without.

#include "verbs/errors.h"

#include "verbs/abi.h"

using namespace verbena::verbs;
