"""The house rules, as data and functions: what a compiler or a formatter can't check.

Every rule takes the source tree, a dict from path to text, and yields Findings. rules_test.py
shows each of them failing on a bad sample; `check.py` runs them over the repository.
"""

import posixpath
import re
from typing import Callable, Iterator, NamedTuple

Tree = dict[str, str]


class Finding(NamedTuple):
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


Rule = Callable[[Tree], Iterator[Finding]]

# --- Include arrows (docs/ARCHITECTURE.md, "The map"). A folder may include itself and these.

PROTO = {"base", "proto"}
TRANSPORTS = PROTO | {"proto/inet", "proto/ib_bth", "proto/roce", "proto/iwarp"}
WORLD = TRANSPORTS | {"faults", "nic_model", "pcap"}

MAY_INCLUDE = {
    "base": set(),
    "proto": {"base"},
    "proto/inet": PROTO,
    "proto/ib_bth": PROTO,
    "proto/roce": PROTO | {"proto/inet", "proto/ib_bth"},
    # TCP reaches iWARP as an abstract byte stream only.
    "proto/iwarp": PROTO,
    "nic_model": TRANSPORTS,
    "pcap": {"base"},
    "faults": TRANSPORTS,
    "sim": WORLD,
    "ports": WORLD,
    "verbs": WORLD | {"ports"},
    "cli": WORLD | {"ports", "sim"},
    # It runs where nothing of ours is.
    "lab": set(),
    # Programs of users: they know verbs, and nothing of ours.
    "examples": set(),
    "bench": WORLD | {"ports", "sim", "tests"},
    "fuzz": WORLD | {"ports", "sim", "cli"},
    "tests": WORLD | {"ports", "sim", "verbs", "cli", "examples"},
}

# --- Words that have no place in some folders. The pattern is searched in code without comments
# and strings.

CORE = ("base", "proto", "nic_model")
SANS_IO = (*CORE, "faults", "sim")
EVERYWHERE = tuple(MAY_INCLUDE)


class Banned(NamedTuple):
    pattern: str
    folders: tuple[str, ...]
    instead: str
    exempt: tuple[str, ...] = ()


BANNED = [
    Banned(r"\b(system_clock|steady_clock|high_resolution_clock|clock_gettime|gettimeofday)\b",
           SANS_IO, "time is an argument (base/time.h)"),
    Banned(r"\bstd::(random_device|mt19937(_64)?|default_random_engine)\b|\b(s?rand|random)\s*\(",
           SANS_IO, "randomness is a parameter (base/prng.h)"),
    Banned(r"\bstd::(thread|jthread|mutex|recursive_mutex|shared_mutex|condition_variable|async"
           r"|lock_guard|unique_lock|scoped_lock)\b|\bpthread_\w+",
           SANS_IO, "one Nic is single-threaded state; threads and locks live in ports/"),
    Banned(r"#include <(sys/socket|sys/mman|sys/epoll|netinet/\w+|arpa/inet|unistd|fcntl|pthread"
           r"|poll)\.h>|#include <(thread|mutex|condition_variable|future)>|#include <boost/asio",
           SANS_IO, "the core does no I/O; the operating system is met in ports/ and pcap/"),
    Banned(r"(?<![\w:.>])(::)?(socket|sendto|sendmsg|recvfrom|recvmsg|epoll_wait|fopen)\s*\(",
           SANS_IO, "the core does no I/O; it is given frames and asked for frames"),
    Banned(r"\bthrow\b|\btry\s*\{|\bcatch\s*\(",
           CORE, "a bad packet is a Result, a protocol outcome a value, our bug a VERBENA_CHECK"),
    Banned(r"\bstd::(cout|cerr|clog|puts)\b|\b(printf|puts|putchar)\s*\(",
           (*SANS_IO, "pcap", "ports", "verbs"), "a library prints nothing on standard output"),
    Banned(r"\bassert\s*\(", (*SANS_IO, "pcap", "ports", "verbs", "cli"),
           "VERBENA_CHECK holds in every build"),
    Banned(r"#include <toml\+\+/", EVERYWHERE, "base/toml.h sets it up and mends it",
           exempt=("base",)),
    Banned(r"#define\s+private\b|#define\s+protected\b", ("tests",),
           "test through the public interface"),
    Banned(r"\bsleep_for\b|\bsleep_until\b|\bu?sleep\s*\(", ("tests/unit",),
           "unit tests are deterministic: time is an argument",
           exempt=("tests/unit/ports",)),  # the engine's tests have threads, in real time
]

LINE_CHARS_MAX = 100
FILE_LINES_MAX = 600

CPP = (".h", ".cpp", ".c")
SOURCES = (".cpp", ".c")


# --- Helpers


def is_code(path: str) -> bool:
    return path.endswith((*CPP, ".py", ".cmake", "CMakeLists.txt")) or path in ("dev", ".ci/run")


def is_cmake(path: str) -> bool:
    return posixpath.basename(path) == "CMakeLists.txt" or path.endswith(".cmake")


def folder_of(path: str) -> str | None:
    """The row of MAY_INCLUDE that a file belongs to: the longest prefix."""
    rows = [row for row in MAY_INCLUDE if path.startswith(row + "/")]
    return max(rows, key=len, default=None)


def is_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(path.startswith(folder + "/") for folder in folders)


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    return enumerate(text.splitlines(), start=1)


def blanked(match: re.Match) -> str:
    """Spaces instead of what matched, with its line ends, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", match.group())


# An #include keeps its text: what is in <> or "" there is no string. A ' after a hexadecimal digit
# separates digits.
NOT_BARE = re.compile(
    r'(?P<include>#include[^\n]*)'
    r'|R"(?P<mark>\w*)\((?:.|\n)*?\)(?P=mark)"'
    r'|//[^\n]*|/\*(?:.|\n)*?\*/'
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|(?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)+'")


def bare_code(text: str) -> str:
    """C++ without comments, string and character literals."""
    return NOT_BARE.sub(lambda m: m.group() if m["include"] else blanked(m), text)


# --- Rules


def include_arrows(tree: Tree) -> Iterator[Finding]:
    """Folders include each other only in the directions of the map."""
    for path, text in tree.items():
        source = folder_of(path)
        if source is None or not path.endswith(CPP):
            continue
        for number, line in lines_of(text):
            include = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not include:
                continue
            target = folder_of(include.group(1))
            if target is None:
                yield Finding(path, number, f'"{include.group(1)}" isn\'t written from the root '
                              "of the project, or is in no folder of the map")
            elif target != source and target not in MAY_INCLUDE[source]:
                yield Finding(path, number, f"{source}/ may not include {target}/")


def banned_words(tree: Tree) -> Iterator[Finding]:
    """Words that break a decision of the design don't appear in the folders it holds for."""
    for path, text in tree.items():
        rows = [row for row in BANNED
                if is_in(path, row.folders) and not is_in(path, row.exempt)]
        if not rows or not path.endswith(CPP):
            continue
        for number, line in lines_of(bare_code(text)):
            for row in rows:
                if found := re.search(row.pattern, line):
                    yield Finding(path, number, f"`{found.group().strip()}`: {row.instead}")


def line_length(tree: Tree) -> Iterator[Finding]:
    """Lines of code have 100 columns at most."""
    for path, text in tree.items():
        if is_code(path):
            for number, line in lines_of(text):
                if len(line) > LINE_CHARS_MAX:
                    yield Finding(path, number, f"{len(line)} columns, {LINE_CHARS_MAX} at most")


def file_length(tree: Tree) -> Iterator[Finding]:
    """A file has one purpose, which fits in 600 lines."""
    for path, text in tree.items():
        count = len(text.splitlines())
        if is_code(path) and count > FILE_LINES_MAX:
            yield Finding(path, count, f"{count} lines, {FILE_LINES_MAX} at most: split it")


def headers(tree: Tree) -> Iterator[Finding]:
    """A header says what it is for, is guarded by #pragma once, and somebody includes it."""
    included = set()
    for path, text in tree.items():
        if path.endswith(CPP):
            included.update(re.findall(r'#\s*include\s*"([^"]+)"', text))
    for path, text in tree.items():
        if not path.endswith(".h"):
            continue
        if not text.startswith("//"):
            yield Finding(path, 1, "a header begins with a comment that says what it is for")
        if "#pragma once" not in text.splitlines():
            yield Finding(path, 1, "#pragma once is missing")
        if path not in included:
            yield Finding(path, 1, "nobody includes this header")


def file_names(tree: Tree) -> Iterator[Finding]:
    """Files are named in snake_case, C++ ones .h and .cpp."""
    for path in tree:
        name = posixpath.basename(path)
        if re.search(r"\.(hpp|hh|hxx|cc|cxx|C|H)$", name):
            yield Finding(path, 1, "C++ files end in .h and .cpp")
        elif path.endswith((*CPP, ".py")) and not re.fullmatch(r"[a-z0-9_]+\.[a-z]+", name):
            yield Finding(path, 1, "file names are snake_case")


def sources_listed(tree: Tree) -> Iterator[Finding]:
    """Every source file is named by a CMake file of its folder or of one above. The programs of the
    black-box tests are compiled by these, by name."""
    black_box = "\n".join(text for path, text in tree.items()
                          if path.startswith("tests/blackbox/") and path.endswith(".py"))
    for path in tree:
        if not path.endswith(SOURCES):
            continue
        program = re.fullmatch(r"tests/blackbox/programs/(\w+)\.c", path)
        if program and re.search(rf"\b(?:compiled|shared_library)\([\"']{program[1]}[\"'][,)]",
                                black_box):
            continue
        folder, listed = posixpath.dirname(path), False
        while folder and not listed:
            lists = "\n".join(text for other, text in tree.items()
                              if posixpath.dirname(other) == folder and is_cmake(other))
            name = re.escape(posixpath.relpath(path, folder))
            # What the top level includes, cmake/*.cmake, names files from the root.
            listed = re.search(rf"(?<![\w./-])({name}|{re.escape(path)})(?![\w./-])",
                               lists) is not None
            folder = posixpath.dirname(folder)
        if not listed:
            yield Finding(path, 1, "no CMake file names this file: it is never compiled")


def tests_registered(tree: Tree) -> Iterator[Finding]:
    """Every Python file under tests/ is collected by pytest, or imported or run by another."""
    scripts = {path: text for path, text in tree.items()
               if path.startswith("tests/") and path.endswith(".py")}
    for path in scripts:
        name = posixpath.basename(path)
        if name == "__init__.py" or (path.startswith("tests/blackbox/") and (
                re.fullmatch(r"test_\w+\.py|conftest\.py", name))):
            continue
        module = re.escape(name[:-len(".py")])
        uses = re.compile(rf"^\s*(from|import)\s[^\n]*\b{module}\b|(?<!\w){module}\.py\b",
                          re.MULTILINE)
        if not any(uses.search(text) for other, text in tree.items()
                   if other != path and (other in scripts or other.endswith("CMakeLists.txt"))):
            yield Finding(path, 1, "no test runs or imports this file")


def test_purpose(tree: Tree) -> Iterator[Finding]:
    """A file of tests begins with a sentence of purpose."""
    for path, text in tree.items():
        if path.startswith("tests/unit/") and path.endswith("_test.cpp"):
            if not text.startswith("//"):
                yield Finding(path, 1, "tests begin with a comment that says what they are for")
        if path.startswith("tests/blackbox/test_") and path.endswith(".py"):
            if not re.match(r'(#!.*\n)?[rR]?"""', text):
                yield Finding(path, 1, "tests begin with a docstring that says what they are for")


def one_title(tree: Tree) -> Iterator[Finding]:
    """A document has one title."""
    for path, text in tree.items():
        if not path.endswith(".md"):
            continue
        # Blocks of code may have lines that begin with #.
        prose = re.sub(r"^ *```.*?^ *```", blanked, text, flags=re.MULTILINE | re.DOTALL)
        titles = [number for number, line in lines_of(prose) if line.startswith("# ")]
        if len(titles) != 1:
            yield Finding(path, titles[1] if titles else 1,
                          f"{len(titles)} titles (lines that begin with one #) instead of one")


def no_leftovers(tree: Tree) -> Iterator[Finding]:
    """Nothing says that it isn't finished: finish it, or file an issue."""
    for path, text in tree.items():
        if path.startswith("tests/house/"):
            continue
        for number, line in lines_of(text):
            if found := re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
                yield Finding(path, number, f"{found.group()}: finish it or file an issue")


def no_private_paths(tree: Tree) -> Iterator[Finding]:
    """No path of somebody's own machine."""
    for path, text in tree.items():
        if path.startswith("tests/house/"):
            continue
        for number, line in lines_of(text):
            if found := re.search(r"(?<![\w.}/$)])/(home|root|work|Users)/[\w.-]+", line):
                yield Finding(path, number, f"{found.group()} is a path of one machine")


def no_conflict_marks(tree: Tree) -> Iterator[Finding]:
    """No conflict of a merge that nobody resolved."""
    for path, text in tree.items():
        for number, line in lines_of(text):
            if re.match(r"(<{7}|>{7}) ", line):
                yield Finding(path, number, "a conflict of a merge")


MUTANTS = "tests/mutation/mutants.py"


def mutants_fit(tree: Tree) -> Iterator[Finding]:
    """The lines that the mutants change are there, each once: no refactoring loses one."""
    module: dict = {}
    if MUTANTS in tree:
        exec(compile(tree[MUTANTS], MUTANTS, "exec"), module)  # It is a list and its type.
    for mutant in module.get("MUTANTS", []):
        lines = [number for number, line in lines_of(tree[MUTANTS]) if mutant.name in line]
        if not mutant.file.endswith(".cpp"):
            yield Finding(MUTANTS, lines[0], f"{mutant.file} isn't compiled by itself")
        elif (count := tree.get(mutant.file, "").count(mutant.old)) != 1:
            yield Finding(MUTANTS, lines[0], f"its line is {count} times in {mutant.file}")


RULES: list[Rule] = [
    include_arrows, banned_words, line_length, file_length, headers, file_names, sources_listed,
    tests_registered, test_purpose, one_title, no_leftovers, no_private_paths, no_conflict_marks,
    mutants_fit,
]
