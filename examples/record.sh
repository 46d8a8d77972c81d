#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Records train.py on a small cluster that exists only inside this machine: every rank is a host of its own (a network
# namespace), and the hosts meet in a switch whose links are shaped to a rate. Needs root, for the namespaces.
set -eu

usage() {
	cat <<'END'
usage: record.sh [-n RANKS] [-r MBIT] [-o DIR] [-p PYTHON] [-- ARGUMENT...]
  -n RANKS   hosts, one rank each (default 2)
  -r MBIT    rate of each link in each direction, in Mbit/s (default 400)
  -o DIR     folder for the traces (default traces)
  -p PYTHON  the interpreter that has torch and numpy (default python3)
Arguments after -- go to train.py.
END
}

fail() {
	echo "record.sh: $1" >&2
	exit "${2:-1}"
}

ranks=2 rate=400 out=traces python=python3
while getopts n:r:o:p:h option; do
	case $option in
	n) ranks=$OPTARG ;;
	r) rate=$OPTARG ;;
	o) out=$OPTARG ;;
	p) python=$OPTARG ;;
	h) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
case $ranks in '' | *[!0-9]* | 0) fail "-n: expected a number of ranks, found '$ranks'" 2 ;; esac
case $rate in '' | *[!0-9]* | 0) fail "-r: expected whole Mbit/s, found '$rate'" 2 ;; esac

[ "$(id -u)" = 0 ] || fail "needs root, to make network namespaces"
for tool in ip:iproute2 tc:iproute2 unshare:util-linux; do
	command -v "${tool%:*}" >/dev/null || fail "needs '${tool%:*}', which the package ${tool#*:} has"
done
command -v "$python" >/dev/null || fail "-p: no interpreter '$python'"
"$python" -c 'import numpy, torch' 2>/dev/null || fail "needs torch and numpy in '$python' (try -p)"

here=$(cd "$(dirname "$0")" && pwd)
net=ddp-example # the namespaces are ddp-example-switch, ddp-example-0, ddp-example-1, ...
logs=$(mktemp -d)
pids=

remove_hosts() {
	for name in $(ip netns list | cut -d' ' -f1 | grep "^$net-" || true); do
		for pid in $(ip netns pids "$name"); do kill -9 "$pid" 2>/dev/null || true; done
		ip netns del "$name"
	done
}

tear_down() {
	trap - EXIT INT TERM
	for pid in $pids; do kill "$pid" 2>/dev/null || true; done
	wait
	remove_hosts
	rm -rf "$logs"
}
trap tear_down EXIT
trap 'exit 1' INT TERM

shape() { # shape NAMESPACE DEVICE: what leaves DEVICE leaves it at the rate
	ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "${rate}mbit" burst 128kb latency 50ms
}

build() {
	remove_hosts # that an earlier run, killed, may have left
	ip netns add $net-switch
	ip netns exec $net-switch ip link add switch type bridge
	ip netns exec $net-switch ip link set switch up
	r=0
	while [ $r -lt "$ranks" ]; do
		ip netns add $net-$r
		ip link add eth0 netns $net-$r type veth peer name port$r netns $net-switch
		ip netns exec $net-$r ip addr add 10.77.0.$((r + 1))/24 dev eth0
		ip netns exec $net-$r ip link set lo up
		ip netns exec $net-$r ip link set eth0 up
		ip netns exec $net-switch ip link set port$r master switch up
		shape $net-$r eth0
		shape $net-switch port$r
		r=$((r + 1))
	done
}

start() { # start RANK ARGUMENT...
	r=$1
	shift
	RANK=$r LOCAL_RANK=0 WORLD_SIZE=$ranks MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \
		GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
		ip netns exec $net-$r unshare --uts sh -c 'hostname "$0" && exec "$@"' host$r \
		"$python" "$here/train.py" --out "$out" "$@" >"$logs/$r" 2>&1 &
	pids="$pids $!"
}

build
r=0
while [ $r -lt "$ranks" ]; do
	start $r "$@"
	r=$((r + 1))
done

# A rank that fails leaves the others waiting for it, so the first failure ends the run (tear_down ends the others).
left=$pids
while [ -n "$left" ]; do
	sleep 0.2
	still=
	for pid in $left; do
		if kill -0 "$pid" 2>/dev/null; then
			still="$still $pid"
		elif ! wait "$pid"; then
			cat "$logs"/* >&2
			fail "a rank failed; what the ranks wrote is above"
		fi
	done
	left=$still
done
ls -l "$out"
