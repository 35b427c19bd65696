#!/usr/bin/env bash
# Installs what the tests need, builds, runs every test; cheapest first. Ends with ctest's summary.
#   ./test.sh          every step but gcc and fuzz
#   ./test.sh STEP...  only the named steps (see the list at the end)
# FUZZ_SECONDS (60): time for each fuzz target. JOBS: compile jobs (default: all cores).
set -euo pipefail
cd "$(dirname "$0")"
jobs="${JOBS:-$(nproc)}"
fuzz_seconds="${FUZZ_SECONDS:-60}"

build() { # preset [targets...]
  local preset=$1
  shift
  cmake --preset "$preset" >"build/$preset-cmake.log" 2>&1 || { cat "build/$preset-cmake.log"; return 1; }
  cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"} >"build/$preset-build.log" 2>&1 ||
    { tail -n 80 "build/$preset-build.log"; return 1; }
}

run_ctest() { # preset [ctest arguments...]
  local preset=$1
  shift
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs" "$@" | tee "build/$preset-ctest.log" |
    { grep -vE '^ *Start |Passed' || true; }
}

step_packages() { tools/install_packages.sh test; }
step_format() {
  git ls-files '*.h' '*.cpp' '*.inc' | xargs clang-format-19 --dry-run -Werror
  echo "format: clean"
}
step_layers() { python3 tools/check_layers.py; }
step_dev() { # sanitizers; the slow tests run in the release step
  build dev
  run_ctest dev -LE 'slow|e2e'
}
step_gcc() { # the second compiler builds everything and runs the HTTP tests
  build gcc perigee test_http
  build/gcc/tests/test_http --gtest_brief=1
}
step_fuzz() {
  build fuzz
  mkdir -p build/fuzz/found
  find build/fuzz/fuzz -maxdepth 1 -type f -name '*_fuzz' | sort | xargs -P "$jobs" -I{} bash -c '
    set -euo pipefail
    name=$(basename {} _fuzz)
    mkdir -p build/fuzz/work/$name
    {} build/fuzz/work/$name fuzz/corpus/$name -max_total_time='"$fuzz_seconds"' -timeout=20 -rss_limit_mb=3000 \
      -artifact_prefix=build/fuzz/found/$name- >build/fuzz/$name.log 2>&1 ||
      { tail -n 60 build/fuzz/$name.log; echo "fuzz $name: FAILED"; exit 1; }
    echo "fuzz $name: $(grep -E "^Done|DONE" build/fuzz/$name.log | tail -n 1)"'
}
step_tsan() {
  build tsan test_base test_cache test_engine test_http
  run_ctest tsan -R '^(base|cache|engine|http)\.'
}
step_release() {
  [ -x build/venv/bin/python ] || python3 -m venv build/venv
  build/venv/bin/python -m pip install -q -r tests/e2e/requirements.txt
  build release
  run_ctest release
}

steps=("$@")
# gcc and fuzz are run by name: they are not yet part of every run.
[ "${#steps[@]}" -gt 0 ] || steps=(packages format layers dev tsan release)
mkdir -p build
for step in "${steps[@]}"; do
  echo "== $step"
  begin=$SECONDS
  "step_$step"
  echo "== $step: $((SECONDS - begin)) s"
done
