#!/usr/bin/env bash
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
# Installs the loaders that bench/load_compare.py compares with, outside the tree: each in a
# Python environment of its own, since they want different versions of the same packages.
set -euo pipefail

usage() {
	cat <<'END'
usage: bench/setup_load_peers.sh [--into FOLDER] [--python PYTHON] [PEER...]

  --into FOLDER    where environments go (default
                   ${TAUT_BENCH_HOME:-$HOME/.cache/taut-bench}/load)
  --python PYTHON  the Python to use (default python3)
  PEER             torch (DataLoader and WebDataset), dali, spdl, tf, ffcv;
                   default all of them

spdl needs FFmpeg's libraries (Debian: libavdevice59 libavfilter8 libavformat59).
ffcv is built from its source package, and needs a C++ compiler, pkg-config, OpenCV and
TurboJPEG with their headers (Debian: libopencv-dev libturbojpeg0-dev). One that cannot
be installed is told and left out; the others go on.
END
}

into=${TAUT_BENCH_HOME:-$HOME/.cache/taut-bench}/load
python=python3
peers=
while [ $# -gt 0 ]; do
	case $1 in
	--into) into=${2:?--into wants a folder}; shift 2 ;;
	--python) python=${2:?--python wants a program}; shift 2 ;;
	-h | --help) usage; exit 0 ;;
	-*) usage >&2; exit 2 ;;
	*) peers="$peers $1"; shift ;;
	esac
done

pip() {
	"$into/$peer/bin/python" -m pip --disable-pip-version-check --quiet install "$@"
}

# Its source package lists packages that are needed to train with it, and builds against
# the NumPy that is there: no isolation.
install_ffcv() {
	pip 'numpy==1.26.4' 'setuptools<81' wheel numba tqdm terminaltables fastargs \
		assertpy psutil opencv-python-headless==4.10.0.84 Pillow torch==2.13.0 &&
		pip --no-build-isolation --no-deps ffcv==1.0.2
}

install() {
	case $peer in
	torch) pip torch==2.13.0 numpy Pillow==12.3.0 simplejpeg==1.9.0 webdataset==1.0.2 ;;
	dali) pip numpy nvidia-dali-cuda120==2.4.0 ;;
	spdl) pip numpy spdl==0.8.0 spdl_io==0.8.0 ;;
	tf) pip tensorflow_cpu==2.21.0 ;;
	ffcv) install_ffcv ;;
	*) echo "setup_load_peers: no peer $peer" >&2; return 1 ;;
	esac
}

module_of() {
	case $1 in
	torch) echo torch, simplejpeg, webdataset ;;
	dali) echo nvidia.dali ;;
	spdl) echo spdl.io ;;
	tf) echo tensorflow ;;
	*) echo "$1" ;;
	esac
}

check() {
	"$into/$peer/bin/python" -c "import $(module_of "$peer")" >/dev/null 2>&1
}

mkdir -p "$into"
for peer in ${peers:-torch dali spdl tf ffcv}; do
	[ -x "$into/$peer/bin/python" ] || "$python" -m venv "$into/$peer"
	if check || { install >&2 && check; }; then
		echo "$into/$peer/bin/python"
	else
		echo "setup_load_peers: $peer cannot be had here" >&2
	fi
done
