#!/usr/bin/env bash
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
# Operations that the replay core does in a second, on one core.
set -euo pipefail

usage() {
	cat <<'END'
usage: bench/replay_rate.sh [--program PATH] [ARGUMENT...]

Names the machine and runs build/bench/replay_rate, pinned to one core where
taskset is there. ARGUMENTs go to it: numbers of ranks, or --run PATH.
END
}

here=$(cd "$(dirname "$0")" && pwd)
program=$here/../build/bench/replay_rate
case ${1:-} in
-h | --help) usage; exit 0 ;;
--program) program=${2:?--program wants a path}; shift 2 ;;
esac
if [ ! -x "$program" ]; then
	echo "replay_rate: no $program: run make build, or give --program" >&2
	exit 1
fi
python3 "$here/measure.py" --machine
pin=()
if command -v taskset >/dev/null; then
	pin=(taskset -c "$(taskset -cp $$ | sed 's/.*[:,-] *//')")
fi
"${pin[@]}" "$program" "$@"
