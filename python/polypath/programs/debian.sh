#!/usr/bin/env bash
# Debian's packages for tools/machine, which runs before there is a Python package, and for polypath.linux.
#   debian.sh missing USE...        what of list.tsv with one of these uses is not there: lines "PACKAGE NAME"
#   debian.sh apt-get ARGUMENT...   apt-get that says nothing unless it fails, and waits while another program holds its locks
set -euo pipefail
list=$(dirname "${BASH_SOURCE[0]}")/list.tsv
# Seconds; an upgrade of a whole machine may take that long.
patience=${POLYPATH_APT_PATIENCE:-600}

# As polypath.programs does it.
is_there() {
    local kind=$1 name=$2 place
    case $kind in
        program) command -v "$name" >/dev/null ;;
        header)
            for place in "/usr/include/$name" /usr/include/*-linux-gnu/"$name"; do
                [ ! -e "$place" ] || return 0
            done
            return 1
            ;;
        # The compiler answers with the bare name if it does not find the file.
        library) [[ "$(cc -print-file-name="$name" 2>/dev/null)" = /* ]] ;;
        module) python3 -c "import $name" 2>/dev/null ;;
        file) [ -e "$name" ] ;;
    esac
}

missing() {
    local wanted=" $* " kind name package uses _ use
    PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
    while IFS=$'\t' read -r kind name package uses _; do
        for use in ${uses//,/ }; do
            if [[ $kind != '#'* && $wanted = *" $use "* ]]; then
                is_there "$kind" "$name" || echo "$package $name"
                break
            fi
        done
    done <"$list"
}

apt_get() {
    local deadline=$((SECONDS + patience)) told= said status holder
    export LC_ALL=C DEBIAN_FRONTEND=noninteractive
    while :; do
        status=0
        said=$(apt-get "$@" 2>&1 >/dev/null) || status=$?
        [ "$status" != 0 ] || return 0
        # Of its three locks (of lists, archives and dpkg) apt-get itself would wait for the last one alone.
        if ! grep -qE 'Could not get lock|Unable to lock' <<<"$said"; then
            grep '^E:' <<<"$said" >&2 || echo "$said" >&2
            return "$status"
        fi
        holder=$(sed -nE 's/.* held by process ([0-9]+) \((.*)\).*/\2, process \1,/p' <<<"$said" | head -n 1)
        [ -n "$told" ] || echo "polypath: ${holder:-another program} is installing packages; waiting for it, $patience s at most." >&2
        told=yes
        if [ "$SECONDS" -ge "$deadline" ]; then
            echo "polypath: ${holder:-another program} still installs packages after $patience s: wait until it has ended, then try again." >&2
            return 75
        fi
        sleep 1
    done
}

case ${1:-} in
    missing) shift && missing "$@" ;;
    apt-get) shift && apt_get "$@" ;;
    *) echo "usage: debian.sh missing USE... | debian.sh apt-get ARGUMENT..." >&2 && exit 2 ;;
esac
