// The one place where toml++'s functions are compiled.
#define TOML_IMPLEMENTATION
#include "base/toml.h"
