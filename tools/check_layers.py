#!/usr/bin/env python3
"""Checks the layer law of ARCHITECTURE.md on the include lines of src/, and a few limits of the house.

A layer may include itself and the layers named for it (with everything those may include). Also checked: who may include
Asio/Beast, CUDA and CLI11, the size of files, and that temporaries are not passed to co_await calls (g++ 12 destroys
them twice).
"""
import pathlib
import re
import sys

DIRECT = {
    "base": [],
    "tensor": ["base"],
    "cpu": ["tensor"],
    "cuda": ["tensor"],
    "comm": ["tensor"],
    "text": ["base"],
    "media": ["base"],
    "http": ["base"],
    "model": ["tensor", "comm"],
    "cache": ["tensor"],
    "engine": ["model", "cache", "comm", "text"],
    "api": ["engine", "text", "media", "http"],
    "bench": ["http", "text"],
    "apps": ["api", "bench", "cpu", "cuda"],
}
# External headers that stay behind one door: pattern -> folders or files allowed to include it.
DOORS = {
    r"boost/(asio|beast)": ["http/"],
    r"openssl/": ["http/", "base/"],
    r"CLI/": ["apps/"],
    r"spdlog/": ["base/log.cpp"],
    r"cuda|nccl": ["cuda/", "comm/nccl"],
    r"immintrin": ["cpu/"],
}
MAX_LINES = {"cpu/": 800, "cuda/": 800, "": 600}
GENERATED = {"text/unicode_tables.cpp"}


def reachable(layer):
    seen, todo = {layer}, [layer]
    while todo:
        for below in DIRECT[todo.pop()]:
            if below not in seen:
                seen.add(below)
                todo.append(below)
    return seen


def check_file(path, source):
    name = path.relative_to(source).as_posix()
    layer = name.split("/")[0]
    text = path.read_text(encoding="utf-8")
    problems = []
    if layer not in DIRECT:
        return [f"{name}: folder {layer} is not in the layer law"]
    allowed = reachable(layer)
    for number, line in enumerate(text.splitlines(), 1):
        own = re.match(r'\s*#\s*include\s*"([a-z0-9_]+)/', line)
        if own and own.group(1) in DIRECT and own.group(1) not in allowed:
            problems.append(f"{name}:{number}: {layer} must not include {own.group(1)}")
        other = re.match(r"\s*#\s*include\s*<([^>]+)>", line)
        for pattern, doors in DOORS.items():
            if other and re.match(pattern, other.group(1)) and not any(name.startswith(d) for d in doors):
                problems.append(f"{name}:{number}: {other.group(1)} is only for {', '.join(doors)}")
        if re.search(r"co_await[^;]*[\[{]", line):
            problems.append(f"{name}:{number}: name the arguments of a co_await call first")
    limit = next(value for prefix, value in MAX_LINES.items() if name.startswith(prefix))
    if name not in GENERATED and len(text.splitlines()) > limit:
        problems.append(f"{name}: {len(text.splitlines())} lines, the limit is {limit}")
    return problems


def main():
    source = pathlib.Path(__file__).resolve().parent.parent / "src"
    files = sorted(p for p in source.rglob("*") if p.suffix in (".h", ".cpp", ".inc", ".cu", ".cuh"))
    problems = [p for f in files for p in check_file(f, source)]
    for problem in problems:
        print(problem)
    print(f"layer law: {len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
