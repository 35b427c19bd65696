#!/usr/bin/env bash
# Installs Debian packages: `install_packages.sh build` what a build needs, `install_packages.sh test` that and what the
# tests need. Does nothing when all are there; asks apt only then.
set -euo pipefail

build=(clang-19 lld-19 cmake ninja-build ccache libboost1.81-dev libfmt-dev libspdlog-dev libcli11-dev libssl-dev
  libxxhash-dev curl jq)
test=(g++ clang-format-19 libclang-rt-19-dev libgtest-dev libgmock-dev libbenchmark-dev python3 python3-venv
  python3-numpy git)

case "${1:-build}" in
  build) packages=("${build[@]}") ;;
  test) packages=("${build[@]}" "${test[@]}") ;;
  *)
    echo "usage: $0 build|test" >&2
    exit 2
    ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ "${#missing[@]}" -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
  echo "perigee needs these Debian packages: ${missing[*]}" >&2
  echo "run as root, or: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
