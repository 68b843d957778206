"""Checks the repository against the house rules: check.py ROOT. Prints what breaks them."""

import os
import pathlib
import sys

import rules

# Not ours, or not text: the build, version control, and the data that tests read.
SKIPPED_NAMES = {"build", ".git", ".cache", "__pycache__", ".pytest_cache"}
SKIPPED_PATHS = ("tests/data/",)


def read_tree(root: pathlib.Path) -> rules.Tree:
    tree = {}
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(set(subfolders) - SKIPPED_NAMES)
        # In a linked worktree .git is a file.
        for name in sorted(set(names) - SKIPPED_NAMES):
            file = pathlib.Path(folder, name)
            path = file.relative_to(root).as_posix()
            if path.startswith(SKIPPED_PATHS) or not file.is_file():
                continue
            try:
                tree[path] = file.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
    return tree


def main() -> int:
    tree = read_tree(pathlib.Path(sys.argv[1]).resolve())
    findings = [finding for rule in rules.RULES for finding in rule(tree)]
    for finding in findings:
        print(finding)
    print(f"{len(tree)} files, {len(rules.RULES)} rules, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
