"""How long what has to do with a guest of the lab may take. Without KVM, and on a machine that has
other things to do, all takes ten times as long as it should: only a hang takes as long as this."""

# `verbena lab build` gives up by itself, and says why (cli/lab.cpp).
BUILD_LIMIT_S = 1500.0
# Of two boots, of which the first is given up (cli/boot_watch.h).
BOOT_LIMIT_S = 700.0
# Of one command in a guest that is up. The guest gives up first, so that its output is there.
STEP_LIMIT_S = 300.0
STEP_LIMIT_HERE_S = STEP_LIMIT_S + 60.0
# Of all that a guest does, one step after the other.
GUEST_LIMIT_S = 3600.0
# `verbena xcheck` gives up by itself, after its second guest.
XCHECK_LIMIT_S = 2400.0
