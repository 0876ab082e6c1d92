#!/usr/bin/env python3
"""speccheck.py SPEC...: each line names an existing file and symbol words (run in the worktree)."""
import re, sys, os
for spec in sys.argv[1:]:
    seen = set(); moved = {}
    for n, line in enumerate(open(spec), 1):
        line = line.split("#")[0].strip()
        if not line: continue
        m = re.match(r"MOVE (\S+) -> ([a-z_0-9]+)$", line)
        if m:
            if not os.path.exists(m.group(1)): print(f"{spec}:{n}: no file {m.group(1)}")
            continue
        m = re.match(r"(\S+) ([A-Za-z_][\w:.]*)(?:@(\w+))? -> (\w+)$", line)
        if not m: print(f"{spec}:{n}: not a line: {line}"); continue
        f, p, loc, new = m.groups()
        if not os.path.exists(f): print(f"{spec}:{n}: no file {f}"); continue
        t = open(f).read(); words = re.split(r"::|\.", p)
        for w in words + ([loc] if loc else []):
            if not re.search(r"\b" + w + r"\b", t): print(f"{spec}:{n}: no `{w}` in {f}")
        if (f, p, loc) in seen: print(f"{spec}:{n}: twice: {line}")
        seen.add((f, p, loc))
        if words[-1] == new and not loc: print(f"{spec}:{n}: no change: {line}")
