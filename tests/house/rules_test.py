"""The positive control of the house rules: each fails on a bad sample and passes on a good one."""

import unittest

import rules


def places(rule: rules.Rule, tree: rules.Tree) -> list[tuple[str, int]]:
    return [(finding.path, finding.line) for finding in rule(tree)]


def in_file(rule: rules.Rule, path: str, text: str) -> list[int]:
    return [finding.line for finding in rule({path: text})]


class IncludeArrows(unittest.TestCase):
    def found(self, path: str, include: str) -> bool:
        return bool(in_file(rules.include_arrows, path, f'// x\n#include "{include}"\n'))

    def test_an_arrow_against_the_map_is_found(self):
        for path, include in [
            ("base/a.h", "proto/b.h"),
            ("proto/a.h", "proto/inet/b.h"),
            ("proto/inet/a.h", "proto/ib_bth/b.h"),
            ("proto/ib_bth/a.cpp", "proto/roce/b.h"),
            ("proto/ib_bth/a.cpp", "proto/inet/b.h"),
            ("proto/iwarp/a.cpp", "proto/inet/b.h"),
            ("proto/roce/a.cpp", "proto/iwarp/b.h"),
            ("proto/roce/a.cpp", "nic_model/b.h"),
            ("nic_model/a.cpp", "ports/b.h"),
            ("pcap/a.cpp", "nic_model/b.h"),
            ("sim/a.cpp", "ports/b.h"),
            ("ports/a.cpp", "sim/b.h"),
            ("ports/a.cpp", "verbs/b.h"),
            ("verbs/a.cpp", "sim/b.h"),
            ("verbs/a.cpp", "cli/b.h"),
            ("cli/a.cpp", "verbs/b.h"),
            ("bench/a.cpp", "verbs/b.h"),
            ("faults/a.cpp", "nic_model/b.h"),
            ("nic_model/a.cpp", "faults/b.h"),
        ]:
            with self.subTest(path=path, include=include):
                self.assertTrue(self.found(path, include))

    def test_an_arrow_of_the_map_is_fine(self):
        for path, include in [
            ("base/a.h", "base/b.h"),
            ("proto/roce/a.cpp", "proto/ib_bth/b.h"),
            ("proto/roce/a.cpp", "proto/inet/b.h"),
            ("nic_model/a.cpp", "proto/roce/b.h"),
            ("sim/a.cpp", "pcap/b.h"),
            ("ports/a.cpp", "nic_model/b.h"),
            ("cli/a.cpp", "sim/b.h"),
            ("verbs/rdma_cm/a.cpp", "verbs/b.h"),
            ("tests/unit/verbs/a_test.cpp", "verbs/b.h"),
        ]:
            with self.subTest(path=path, include=include):
                self.assertFalse(self.found(path, include))

    def test_an_include_that_does_not_start_at_the_root_is_found(self):
        self.assertTrue(self.found("base/a.cpp", "a.h"))
        self.assertTrue(self.found("base/a.cpp", "../base/a.h"))

    def test_every_folder_named_on_the_right_has_a_row(self):
        for targets in rules.MAY_INCLUDE.values():
            self.assertLessEqual(targets, rules.MAY_INCLUDE.keys())


class BannedWords(unittest.TestCase):
    # One line for each row of the table, in its order, and a folder where it is banned.
    SAMPLES = [
        ("nic_model", "auto now = std::chrono::steady_clock::now();"),
        ("proto/roce", "std::random_device seed;"),
        ("nic_model", "std::mutex lock_;"),
        ("base", "#include <sys/socket.h>"),
        ("sim", "int s = ::socket(AF_INET, SOCK_DGRAM, 0);"),
        ("proto/ib_bth", "throw std::runtime_error(reason);"),
        ("ports", "std::cout << frame;"),
        ("proto", "assert(size > 0);"),
        ("sim", "#include <toml++/toml.h>"),
        ("tests/unit/base", "#define private public"),
        ("tests/unit/base", "std::this_thread::sleep_for(1ms);"),
    ]

    def test_each_row_finds_its_word(self):
        self.assertEqual(len(self.SAMPLES), len(rules.BANNED))
        for (folder, line), row in zip(self.SAMPLES, rules.BANNED):
            with self.subTest(line=line):
                self.assertRegex(line, row.pattern)
                self.assertTrue(rules.is_in(f"{folder}/a.cpp", row.folders))
                self.assertEqual(in_file(rules.banned_words, f"{folder}/a.cpp", f"\n{line}\n"), [2])

    def test_more_words_of_the_same_kind(self):
        for line in ["int x = rand();", "srand(1);", "clock_gettime(CLOCK_MONOTONIC, &t);",
                     "std::thread t;", "#include <mutex>", "#include <boost/asio.hpp>",
                     'std::printf("x");', "pthread_create(&t, 0, f, 0);", "} catch (...) {"]:
            with self.subTest(line=line):
                self.assertEqual(in_file(rules.banned_words, "nic_model/a.cpp", line), [1])

    def test_comments_strings_and_other_names_are_fine(self):
        for line in ["// never throws, has no std::mutex", "/* rand() */ int x;",
                     'describe("throw");', "static_assert(sizeof(int) == 4);",
                     "std::snprintf(buffer, size, format);", "port.socket(1);", "operand(2);",
                     "std::fprintf(stderr, message);", "const int n = 0xFF'FFFF; // throw"]:
            with self.subTest(line=line):
                self.assertEqual(in_file(rules.banned_words, "proto/a.cpp", line), [])

    def test_the_word_is_fine_where_it_belongs(self):
        self.assertEqual(in_file(rules.banned_words, "ports/engine.cpp", "std::mutex m;"), [])
        self.assertEqual(in_file(rules.banned_words, "cli/main.cpp", "std::puts(text);"), [])
        self.assertEqual(in_file(rules.banned_words, "tests/unit/ports/a.cpp", "sleep(1);"), [])

    def test_a_comment_over_lines_keeps_line_numbers(self):
        self.assertEqual(in_file(rules.banned_words, "base/a.cpp", "/* a\n b\n*/\nthrow 1;"), [4])

    def test_digit_separators_do_not_open_a_character(self):
        code = "int a = 0x1'0000;\nthrow 1;\nint b = 0x1'0000;\n"
        self.assertEqual(in_file(rules.banned_words, "base/a.cpp", code), [2])


class Layout(unittest.TestCase):
    def test_a_long_line_is_found(self):
        self.assertEqual(in_file(rules.line_length, "base/a.h", "x" * 100), [])
        self.assertEqual(in_file(rules.line_length, "base/a.h", "\n" + "x" * 101), [2])
        self.assertEqual(in_file(rules.line_length, "dev", "x" * 101), [1])
        self.assertEqual(in_file(rules.line_length, "README.md", "x" * 101), [])

    def test_a_long_file_is_found(self):
        self.assertEqual(in_file(rules.file_length, "base/a.h", "\n" * 600), [])
        self.assertEqual(in_file(rules.file_length, "base/a.h", "\n" * 601), [601])

    def test_a_name_that_is_no_snake_case_is_found(self):
        self.assertEqual(in_file(rules.file_names, "base/RcQueue.h", ""), [1])
        self.assertEqual(in_file(rules.file_names, "base/rc-queue.cpp", ""), [1])
        self.assertEqual(in_file(rules.file_names, "base/rc_queue.cc", ""), [1])
        self.assertEqual(in_file(rules.file_names, "base/rc_queue2.cpp", ""), [])


class Headers(unittest.TestCase):
    GOOD = "// What it is for.\n#pragma once\n"

    def found(self, header: str, source: str = '#include "base/a.h"') -> int:
        return len(list(rules.headers({"base/a.h": header, "base/a.cpp": source})))

    def test_a_good_header_is_fine(self):
        self.assertEqual(self.found(self.GOOD), 0)

    def test_a_header_without_guard_purpose_or_reader_is_found(self):
        self.assertEqual(self.found("// What it is for.\n"), 1)
        self.assertEqual(self.found("#pragma once\n"), 1)
        self.assertEqual(self.found(self.GOOD, '#include "base/b.h"'), 1)


class Registration(unittest.TestCase):
    def test_a_source_that_no_list_names_is_found(self):
        self.assertEqual(
            places(rules.sources_listed, {
                "base/a.cpp": "",
                "base/CMakeLists.txt": "add_library(x ab.cpp a.cpp.in b/a.cpp)"}),
            [("base/a.cpp", 1)])

    def test_a_source_listed_in_its_folder_or_above_is_fine(self):
        self.assertEqual(
            places(rules.sources_listed, {
                "base/a.cpp": "",
                "base/sub/b.cpp": "",
                "base/CMakeLists.txt": "add_library(x a.cpp sub/b.cpp)",
                "cmake/c.cpp": "",
                "cmake/c.cmake": "add_library(c cmake/c.cpp)"}),
            [])

    def test_a_program_of_the_black_box_tests_needs_one_that_compiles_it(self):
        self.assertEqual(
            places(rules.sources_listed, {
                "tests/blackbox/programs/used.c": "",
                "tests/blackbox/programs/unused.c": "",
                "tests/blackbox/test_a.py": "host.run(compiled(\"used\"))"}),
            [("tests/blackbox/programs/unused.c", 1)])

    def test_a_python_test_that_nobody_runs_is_found(self):
        self.assertEqual(
            places(rules.tests_registered, {
                "tests/blackbox/pingpong.py": "", "tests/house/other.py": ""}),
            [("tests/blackbox/pingpong.py", 1), ("tests/house/other.py", 1)])

    def test_a_python_test_that_is_collected_run_or_imported_is_fine(self):
        self.assertEqual(
            places(rules.tests_registered, {
                "tests/blackbox/test_run.py": "import program\nfrom tools import icrc, tshark",
                "tests/blackbox/program.py": "",
                "tests/blackbox/tools/tshark.py": "",
                "tests/blackbox/conftest.py": "",
                "tests/house/check.py": "",
                "tests/house/CMakeLists.txt": "add_test(check.py)"}),
            [])

    def test_a_test_without_purpose_is_found(self):
        self.assertEqual(in_file(rules.test_purpose, "tests/unit/a_test.cpp", "#include <x>"), [1])
        self.assertEqual(in_file(rules.test_purpose, "tests/unit/a_test.cpp", "// Why.\n"), [])
        self.assertEqual(in_file(rules.test_purpose, "tests/blackbox/test_a.py", "import x"), [1])
        self.assertEqual(in_file(rules.test_purpose, "tests/blackbox/test_a.py", '"""Why."""'), [])

    def test_a_mutant_without_its_line_is_found(self):
        listed = ("from collections import namedtuple\n"
                  "Mutant = namedtuple('Mutant', 'name file old new')\n"
                  "MUTANTS = [\n    Mutant('fine', 'a.cpp', 'x = 1', 'x = 2'),\n"
                  "    Mutant('gone', 'a.cpp', 'y = 1', 'y = 2'),\n"
                  "    Mutant('twice', 'a.cpp', 'z', 'w'),\n"
                  "    Mutant('header', 'a.h', 'x', 'y')]\n")
        tree = {rules.MUTANTS: listed, "a.cpp": "x = 1; z; z", "a.h": "x"}
        self.assertEqual([finding.line for finding in rules.mutants_fit(tree)], [5, 6, 7])
        self.assertEqual(list(rules.mutants_fit({})), [])


class Text(unittest.TestCase):
    def test_a_document_has_one_title(self):
        self.assertEqual(in_file(rules.one_title, "a.md", "# A\n## B\n```\n# no title\n```\n"), [])
        self.assertEqual(in_file(rules.one_title, "a.md", "# A\n\n# B\n"), [3])
        self.assertEqual(in_file(rules.one_title, "a.md", "## A\n"), [1])

    def test_an_unfinished_mark_is_found(self):
        for mark in ("TODO", "FIXME", "XXX", "HACK"):
            self.assertEqual(in_file(rules.no_leftovers, "docs/a.md", f"\n{mark}: later"), [2])
        self.assertEqual(in_file(rules.no_leftovers, "docs/a.md", "TODOS"), [])

    def test_a_path_of_one_machine_is_found(self):
        for path in ("/home/ann/x", "/root/x", "/work/x", "/Users/ann"):
            self.assertEqual(in_file(rules.no_private_paths, "docs/a.md", f"see {path}"), [1])
        for path in ("proto/work/x.h", "../home/x", "/usr/include/x.h", "/dev/shm/x"):
            self.assertEqual(in_file(rules.no_private_paths, "docs/a.md", f"see {path}"), [])

    def test_a_conflict_is_found(self):
        conflict = "a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n"
        self.assertEqual(in_file(rules.no_conflict_marks, "docs/a.md", conflict), [2, 6])
        self.assertEqual(in_file(rules.no_conflict_marks, "docs/a.md", "Title\n=======\n"), [])


if __name__ == "__main__":
    unittest.main()
