#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Compiles every algorithm of cc/algs (or those named, or files that are given with their folder) twice: OUTDIR/pp_<name>.bpf.o is loaded into a kernel (polypath cc load, or
# bpftool struct_ops register, which from Linux 7.x on leaves out the hook cwnd_event_tx_start); OUTDIR/pp_<name>.drive.o runs its hooks on made-up flows there (polypath cc check).
# Of a scheduler's file (cc/sched/minrtt.c) it makes OUTDIR/pp_minrtt.bpf.o, for trees that take schedulers as BPF.
set -eu

usage() {
	echo "usage: cc/bpf/build.sh OUTDIR [NAME...]" >&2
	exit 2
}

[ $# -ge 1 ] || usage
out=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
algs=$here/../algs
# No folder of this machine is named in objects.
root=$(dirname "$here")
clang=${CLANG:-clang}
known="init release ssthresh cong_avoid set_state cwnd_event in_ack_event pkts_acked undo_cwnd cong_control sndbuf_expand min_tso_segs"

command -v "$clang" >/dev/null || { echo "build.sh: no clang; install the Debian packages clang, llvm and libbpf-dev" >&2; exit 1; }
mkdir -p "$out"
[ $# -ge 1 ] || set -- $(cd "$algs" && ls ./*.c | sed 's|^\./||; s|\.c$||')

# The verifier follows pointers best in one function: let the compiler inline everything.
compile() {
	"$clang" -target bpf -mcpu=v3 -O2 -g -std=gnu11 -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-parameter \
		-ffile-prefix-map="$root"=cc -fdebug-compilation-dir=. -mllvm -inline-threshold=100000 -I"$here" -I"$here/../include" -c "$@"
}

for name in "$@"; do
	source=$algs/$name.c
	case $name in */*.c) source=$(realpath "$name"); name=$(basename "$name" .c) ;; esac
	[ -f "$source" ] || { echo "build.sh: no algorithm '$name': $source does not exist" >&2; exit 2; }
	if grep -q PP_SCHED_REGISTER "$source"; then
		compile -DPP_SCHED="$name" -DPP_SCHED_FILE="\"$source\"" "$here/sched.bpf.c" -o "$out/pp_$name.bpf.o"
		continue
	fi
	flags=
	# The ops table says which hooks there are; a hook that is absent here must be absent there, since a null hook has a meaning.
	ops=$(tr '\n' ' ' <"$source" | sed -n 's/.*PP_CC_REGISTER\([^;]*\)};.*/\1/p' | tr ',{' '\n\n')
	fields=$(echo "$ops" | sed -n 's/^[[:space:]]*\.\([a-z_]*\)[[:space:]]*=.*/\1/p')
	[ -n "$fields" ] || { echo "build.sh: $name has no hooks in PP_CC_REGISTER" >&2; exit 1; }
	for field in $fields; do
		case " name flags priv_bytes $known " in
		*" $field "*) flags="$flags -DPP_HAS_$field" ;;
		*) echo "build.sh: cc/bpf/glue.bpf.c has no adapter for the hook '$field' of $name" >&2; exit 1 ;;
		esac
	done
	for flag in COUPLED PACES NEEDS_ECN DRAWS REDUCES; do
		! echo "$ops" | grep -q "\.flags[[:space:]]*=.*PP_CC_$flag" || flags="$flags -DPP_$flag"
	done
	for part in glue:bpf drive:drive; do
		compile -DPP_ALG="$name" -DPP_ALG_FILE="\"$source\"" $flags "$here/${part%:*}.bpf.c" -o "$out/pp_$name.${part#*:}.o"
	done
done
