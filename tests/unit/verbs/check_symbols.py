"""The drop-in library exports exactly the symbols of rdma-core's: name, version and kind.

usage: check_symbols.py LIBRARY LIST
"""

import re
import subprocess
import sys


def exported(library):
    """Yields "name@@VERSION kind" for each symbol that the library defines."""
    dump = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True)
    for line in dump.stdout.splitlines():
        # 0000000000012340 g    DF .text  0000000000000056 (IBVERBS_1.0) ibv_reg_mr
        match = re.match(r"[0-9a-f]{16} .{6}(.) (\S+)\s+[0-9a-f]{16}\s+(\(?)(\S+?)\)?\s+(\S+)$",
                         line)
        if match is None:
            continue
        kind, section, old, version, name = match.groups()
        if section in ("*UND*", "*ABS*"):
            continue
        at = "@" if old else "@@"
        yield f"{name}{at}{version} {'function' if kind == 'F' else 'object'}"


def main():
    library, listing = sys.argv[1:]
    with open(listing, encoding="utf-8") as lines:
        wanted = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    found = set(exported(library))
    for symbol in sorted(wanted - found):
        print(f"missing: {symbol}")
    for symbol in sorted(found - wanted):
        print(f"not in the list: {symbol}")
    if found != wanted:
        sys.exit(f"{library} differs from {listing}")
    print(f"{len(found)} symbols, all as listed")


if __name__ == "__main__":
    main()
