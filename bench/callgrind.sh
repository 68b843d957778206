#!/bin/sh
# Instructions per operation of the core, and per function of the messages, counted by callgrind:
# the same on every machine with the same compiler, whatever else runs there.
#
#   bench/callgrind.sh [BUILD_DIRECTORY]     default build/release; needs valgrind and core_repeat
set -eu
build=${1:-build/release}
repeat=$build/bench/core_repeat
count=1000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# instructions OPERATION COUNT: of the whole run.
instructions() {
  valgrind --tool=callgrind --callgrind-out-file="$work/out.$2" "$repeat" "$1" "$2" 2>"$work/log"
  sed -n 's/^summary: //p; s/^totals: //p' "$work/out.$2" | head -1
}

# The layers of a message, from the outside in: what each costs per operation, callees included.
# Inlined callees make callgrind list a function once per source file; the largest is the function.
functions='Nic::(post_send|poll_transmit|on_frame)|Rc(Requester|Responder)::(poll_transmit|on_\w+)|parse_frame|roce::icrc|Encapsulation::(write_prefix|finish)|PacketView::parse|emit_headers|ib::(gather|place)|Cq::complete'
by_function() {
  callgrind_annotate --inclusive=yes --auto=no --threshold=100 "$work/out.$((2 * count))" |
    sed -n 's/^ *\([0-9,]*\) ([^)]*) *[^:]*:\(.*\)$/\1 \2/p' | tr -d , |
    sed 's/ \[.*//; s/(.*//' | grep -E "($functions)$" |
    awk -v n="$((2 * count))" '{ if ($1 > most[$NF]) most[$NF] = $1 }
                               END { for (f in most) printf "    %8.0f %s\n", most[f] / n, f }' |
    sort -rn
}

for operation in $("$repeat"); do
  once=$(instructions "$operation" "$count")
  twice=$(instructions "$operation" "$((2 * count))")
  printf '%-22s %8d\n' "$operation" "$(((twice - once) / count))"
  case $operation in message_*) by_function ;; esac
done
