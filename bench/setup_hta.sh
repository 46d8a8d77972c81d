#!/usr/bin/env bash
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
# Installs Holistic Trace Analysis, which the benchmarks compare with, into a
# Python environment outside the tree.
set -euo pipefail

usage() {
	cat <<'END'
usage: bench/setup_hta.sh [--into FOLDER] [--python PYTHON] [--again]

  --into FOLDER    where the environment goes (default
                   ${TAUT_BENCH_HOME:-$HOME/.cache/taut-bench}/hta)
  --python PYTHON  the Python to use, 3.9 to 3.11 (default python3)
  --again          remove FOLDER first

The versions are pinned to the fastest set that ran (bench/README.md says
which were tried). Prints the path of the environment's Python.
END
}

into=${TAUT_BENCH_HOME:-$HOME/.cache/taut-bench}/hta
python=python3
again=no
while [ $# -gt 0 ]; do
	case $1 in
	--into) into=${2:?--into wants a folder}; shift 2 ;;
	--python) python=${2:?--python wants a program}; shift 2 ;;
	--again) again=yes; shift ;;
	-h | --help) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done

# What HTA imports to analyse traces. Its package also asks for jupyterlab and
# pytest, which it does not use here; with IPython there its start is slower.
hta='HolisticTraceAnalysis==0.5.0'
needs='pandas==1.5.3 numpy==1.26.4 networkx==3.4.2 plotly==5.24.1
	pydot==3.0.4 psutil==6.1.1 PyYAML==6.0.2'

check() {
	"$into/bin/python" -c 'import hta.trace_analysis' 2>/dev/null
}

if [ $again = yes ] && [ -e "$into" ]; then
	if [ ! -e "$into/pyvenv.cfg" ]; then
		echo "setup_hta: $into is not a Python environment; not removed" >&2
		exit 1
	fi
	rm -rf "$into"
fi
if [ -x "$into/bin/python" ] && check; then
	echo "$into/bin/python"
	exit 0
fi

mkdir -p "$(dirname "$into")"
"$python" -m venv "$into"
pip() {
	"$into/bin/python" -m pip --disable-pip-version-check --quiet "$@" >&2
}
# shellcheck disable=SC2086
pip install $needs
pip install --no-deps "$hta"
if ! check; then
	echo "setup_hta: installed, but hta does not import:" >&2
	"$into/bin/python" -c 'import hta.trace_analysis' >&2 || exit 1
fi
echo "$into/bin/python"
