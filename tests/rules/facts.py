#!/usr/bin/env python3
"""Lists the facts of comments and documents that a rewrite has added or lost.

    tests/rules/facts.py BASE [PATH...]

A fact is a number with its unit, a name in backquotes, or the target of a link. The texts at the
commit BASE are compared with those in the working tree, file by file. A rewrite of the language
changes no fact, so each line of the output needs an explanation.
"""

import collections
import re
import subprocess
import sys

MARKS = {
    "md": (),
    "rs": ("///", "//!", "//"),
    "proto": ("//",),
    "cu": ("//",),
    "cuh": ("//",),
    "cpp": ("//",),
    "h": ("//",),
}
FACTS = re.compile(
    r"`[^`]+`"
    r"|\]\([^)]+\)"
    r"|https?://\S+"
    r"|\b\d[\d.,_^/x-]*(?:\s?(?:[KMGT]i?B|bits?|bytes?|ms|µs|ns|s|%|words?|columns|bootstraps?)\b)?"
)


def prose(path, source):
    marks = MARKS.get(path.rsplit(".", 1)[-1], ("#",))
    for line in source.splitlines():
        if not marks:
            yield line
        else:
            bare = line.strip()
            for mark in marks:
                if bare.startswith(mark):
                    yield bare[len(mark) :]
                    break


def facts(path, source):
    text = " ".join(prose(path, source))
    found = (match.strip(" .,-_/") for match in FACTS.findall(text))
    return collections.Counter(fact for fact in found if fact)


def git(*arguments):
    result = subprocess.run(["git", *arguments], capture_output=True, text=True)
    return result.stdout if result.returncode == 0 else ""


def main():
    base, *paths = sys.argv[1:]
    changed = git("diff", "--name-only", base, "--", *paths).split()
    count = 0
    for path in changed:
        before = facts(path, git("show", f"{base}:{path}"))
        try:
            after = facts(path, open(path, encoding="utf-8").read())
        except OSError:
            after = collections.Counter()
        for sign, difference in (("-", before - after), ("+", after - before)):
            for fact, times in sorted(difference.items()):
                print(f"{path}: {sign} {fact}" + (f" ({times} times)" if times > 1 else ""))
                count += 1
    print(f"{count} differences in {len(changed)} files")


main()
