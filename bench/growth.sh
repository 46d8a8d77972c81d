#!/usr/bin/env bash
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
# How `taut report` grows with the events: at 1x, 10x and 100x of one run.
set -euo pipefail

usage() {
	cat <<'END'
usage: bench/growth.sh [options] [RUN]

  RUN              folder of traces (default: the shared Megatron run, else ours)
  --taut PATH      the command (default build/taut)
  --times "1 10"   multiples of the events (default "1 10 100")
  --runs N         runs at 1x and 10x, median counts (default 5; 3 above)
  --gzip           multiplied traces as .json.gz (default: plain .json)
  --scratch DIR    where they go for the time of the run (default ${TMPDIR:-/tmp});
                   100x of the Megatron run takes 3.2 GB plain
  --verb "..."     what to run on them (default "report --json")

A line a multiple: events, MB of JSON (inflated), wall seconds, MB/s, events/s,
peak memory, and memory per event. At the end, how wall time and memory grew
against the events from the first to the last: 1.00 is linear.
END
}

here=$(cd "$(dirname "$0")" && pwd)
taut=$here/../build/taut
times="1 10 100"
runs=5
kind=--plain
scratch=${TMPDIR:-/tmp}
verb="report --json"
run=
while [ $# -gt 0 ]; do
	case $1 in
	--taut) taut=${2:?--taut wants a path}; shift 2 ;;
	--times) times=${2:?--times wants numbers}; shift 2 ;;
	--runs) runs=${2:?--runs wants a number}; shift 2 ;;
	--gzip) kind=--gzip; shift ;;
	--scratch) scratch=${2:?--scratch wants a folder}; shift 2 ;;
	--verb) verb=${2:?--verb wants a verb}; shift 2 ;;
	-h | --help) usage; exit 0 ;;
	-*) usage >&2; exit 2 ;;
	*) run=$1; shift ;;
	esac
done
if [ ! -x "$taut" ]; then
	echo "growth: no $taut: run make build, or give --taut" >&2
	exit 1
fi
if [ -z "$run" ]; then
	run=$(cd "$here" && python3 -c 'import common; print(common.default_run())')
fi

room=$(mktemp -d -p "$scratch")
trap 'rm -rf "$room"' EXIT

inflated_bytes() {
	python3 "$here/inflated.py" "$@"
}

python3 "$here/measure.py" --machine
echo "run: $(basename "$run"), ${kind#--}, $verb"
echo
echo "| events | JSON MB | wall s | MB/s | events/s | CPU s | peak MB | bytes/event |"
echo "|---|---|---|---|---|---|---|---|"
rows=$room/rows
for n in $times; do
	python3 "$here/multiply.py" "$run" "$room/$n" "$n" "$kind" >"$room/said"
	events=$(sed 's/.* files, \([0-9]*\) events.*/\1/' "$room/said")
	bytes=$(inflated_bytes "$room/$n")
	count=$runs
	if [ "$n" -gt 10 ] && [ "$runs" -gt 3 ]; then count=3; fi
	# shellcheck disable=SC2086
	set -- $verb
	name=$1
	shift
	numbers=$(python3 "$here/measure.py" --warm 1 --runs "$count" -- \
		"$taut" "$name" "$room/$n" "$@")
	printf '%s\t%s\t%s\n' "$events" "$bytes" "$numbers" >>"$rows"
	tail -n 1 "$rows" | awk -F'\t' '{
		printf "| %d | %.1f | %.3f | %.0f | %.2fM | %.2f | %.0f | %.0f |\n", $1,
			$2 / 1e6, $3, $2 / 1e6 / $3, $1 / $3 / 1e6, $6, $7,
			$7 * 1048576 / $1 }'
	rm -rf "${room:?}/$n"
done
echo
awk -F'\t' 'NR == 1 { e = $1; w = $3; m = $7 }
	END { if (NR > 1) printf "events grew %.1fx, wall %.1fx (%.2f of linear), memory %.1fx\n",
		$1 / e, $3 / w, ($3 / w) / ($1 / e), $7 / m }' "$rows"
awk -F'\t' '{ e[NR] = $1; w[NR] = $3 }
	END { if (NR > 2) printf "from the last but one: events %.1fx, wall %.1fx (%.2f of linear)\n",
		e[NR] / e[NR-1], w[NR] / w[NR-1], (w[NR] / w[NR-1]) / (e[NR] / e[NR-1]) }' "$rows"
