#!/usr/bin/env bash
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
# Reading traces to columns beside a bare simdjson walk over the same bytes.
set -euo pipefail

usage() {
	cat <<'END'
usage: bench/read_speed.sh [options] [TRACE...]

  TRACE             files, .json or .json.gz (default: one each of several
                    kinds from the shared traces, else of our examples)
  --program PATH    default build/bench/read_columns
  --runs N          runs of the program a trace (default 5)
  --rounds N        turns of columns and walk within each (default 10)
  --limit RATIO     fail when the median ratio to the full walk is above RATIO

The program inflates the trace first, then reads the text to columns and walks
it, in turns, on one thread, and gives the best of its rounds. Here are the
medians over the runs. The ratio is the time of columns by that of the walk;
the raw walk finds strings and numbers without converting them.
END
}

here=$(cd "$(dirname "$0")" && pwd)
program=$here/../build/bench/read_columns
runs=5
rounds=10
limit=0
traces=()
while [ $# -gt 0 ]; do
	case $1 in
	--program) program=${2:?--program wants a path}; shift 2 ;;
	--runs) runs=${2:?--runs wants a number}; shift 2 ;;
	--rounds) rounds=${2:?--rounds wants a number}; shift 2 ;;
	--limit) limit=${2:?--limit wants a number}; shift 2 ;;
	-h | --help) usage; exit 0 ;;
	-*) usage >&2; exit 2 ;;
	*) traces+=("$1"); shift ;;
	esac
done
if [ ! -x "$program" ]; then
	echo "read_speed: no $program: run make build, or give --program" >&2
	exit 1
fi
if [ ${#traces[@]} -eq 0 ]; then
	shared=$here/../../shared/traces/pytorch
	for one in "$shared"/megatron-tp8-a100/rank5.*.gz \
		"$shared"/resnet50_num_workers_0/worker0.1623143089861.*.gz \
		"$shared"/param/resnet_kineto.json.gz \
		"$shared"/tracelens/eager_trace.json.gz \
		"$here"/../examples/ddp-gloo-2host/rank0.pt.trace.json.gz; do
		if [ -f "$one" ]; then traces+=("$one"); fi
	done
fi
if [ ${#traces[@]} -eq 0 ]; then
	echo "read_speed: no traces found; name some" >&2
	exit 1
fi

python3 "$here/measure.py" --machine
echo
echo "| trace | MB | events | columns MB/s | columns Mevents/s | walk MB/s | raw walk MB/s | columns / walk | columns / raw walk |"
echo "|---|---|---|---|---|---|---|---|---|"
said=$(mktemp)
ratios=$(mktemp)
trap 'rm -f "$said" "$ratios"' EXIT
for trace in "${traces[@]}"; do
	: >"$said"
	for ((i = 0; i < runs; i++)); do
		"$program" "$trace" "$rounds" >>"$said"
	done
	awk -v name="$(basename "$(dirname "$trace")")/$(basename "$trace")" \
		-v keep="$ratios" '
	function median(list, n,   i, j, t) {
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && list[j] < list[j-1]; j--) {
				t = list[j]; list[j] = list[j-1]; list[j-1] = t
			}
		return n % 2 ? list[(n+1)/2] : (list[n/2] + list[n/2+1]) / 2
	}
	match($0, /: [0-9.]+ MB, [0-9]+ events/) {
		split(substr($0, RSTART + 2, RLENGTH - 2), w, /[ ,]+/)
		mb = w[1]; events = w[3]; next }
	$1 == "columns" { c[++n] = $2; e[n] = $4; next }
	$1 == "walk," { r[n] = $3; rr[n] = $7; next }
	$1 == "walk" { f[n] = $2; fr[n] = $6; next }
	END {
		if (n == 0) { print "read_speed: no figures for " name > "/dev/stderr"; exit 1 }
		x = median(fr, n)
		printf "| %s | %.1f | %d | %.0f | %.2f | %.0f | %.0f | %.2f | %.2f |\n",
			name, mb, events, median(c, n), median(e, n), median(f, n),
			median(r, n), x, median(rr, n)
		print x > keep
	}' "$said"
	if awk -v l="$limit" '{ exit !(l > 0 && $1 > l) }' "$ratios"; then
		echo "read_speed: $trace: above the limit of $limit" >&2
		above=yes
	fi
done
[ "${above:-no}" = no ]
