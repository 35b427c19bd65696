#!/usr/bin/env bash
# Builds Perigee, serves a small model and asks it one question.
#   ./quickstart.sh          keeps serving afterwards (stop with Ctrl-C)
#   ./quickstart.sh --once   stops after the answer
# PORT chooses the port (default 30000), JOBS the compile jobs (default: all cores).
set -euo pipefail
cd "$(dirname "$0")"

once=false
case "${1:-}" in
  "") ;;
  --once) once=true ;;
  *)
    echo "usage: $0 [--once]" >&2
    exit 2
    ;;
esac
port="${PORT:-30000}"
model=build/quickstart-model

tools/install_packages.sh build
echo "== building (a few minutes the first time)"
mkdir -p build
cmake --preset release -DPERIGEE_TESTS=OFF -DPERIGEE_BENCHMARKS=OFF >build/quickstart-cmake.log 2>&1 ||
  { cat build/quickstart-cmake.log >&2; exit 1; }
cmake --build --preset release --target perigee -j "${JOBS:-$(nproc)}"
perigee=build/release/perigee

if [ ! -f "$model/config.json" ]; then
  echo "== writing a small synthetic checkpoint"
  "$perigee" synth "$model" --preset tiny --seed 1
fi

echo "== starting the server on port $port"
"$perigee" serve --model-path "$model" --served-model-name tiny --port "$port" &
server=$!
stop() { kill -TERM "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
trap stop EXIT
for _ in $(seq 300); do
  curl -sf "http://127.0.0.1:$port/health" >/dev/null && break
  kill -0 "$server" 2>/dev/null || { echo "the server ended before it was ready" >&2; exit 1; }
  sleep 0.1
done
curl -sf "http://127.0.0.1:$port/health" >/dev/null || { echo "the server did not become ready" >&2; exit 1; }

echo "== asking (the weights are random, so the answer is noise; its path through the server is the real one)"
request='{"model":"tiny","stream":true,"max_tokens":48,"temperature":0,"messages":[{"role":"user","content":"Hello! Who are you?"}]}'
start=$(date +%s%N)
first=""
tokens=0
while IFS= read -r line; do
  case "$line" in
    "data: [DONE]"*) break ;;
    "data: "*) ;;
    *) continue ;;
  esac
  text=$(jq -rj '.error.message // ((.choices[0].delta.reasoning_content // "") + (.choices[0].delta.content // ""))' <<<"${line#data: }")
  [ -n "$text" ] || continue
  [ -n "$first" ] || first=$(date +%s%N)
  tokens=$((tokens + 1))
  printf '%s' "$text"
done < <(curl -sN "http://127.0.0.1:$port/v1/chat/completions" -H 'Content-Type: application/json' -d "$request")
echo
[ -n "$first" ] || { echo "no answer came" >&2; exit 1; }
echo "== time to first token: $(((first - start) / 1000000)) ms, $tokens pieces"

if $once; then exit 0; fi
echo "== serving on http://127.0.0.1:$port (Ctrl-C stops)"
wait "$server"
