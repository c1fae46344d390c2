# Read before every script. A script has `setup`, which runs once on the system's allocator, and
# `run`, which runs in a fresh folder on each. `under PROG ARGS…` is the one way in which a program
# meets the allocator; all else, drivers and filters among them, runs without.
set -euo pipefail
export LC_ALL=C.UTF-8 TZ=UTC HOME=$PWD TMPDIR=$PWD
under() { "$COMPAT_RUNNER" compat-run --report "$COMPAT_REPORT" -- "$@"; }
# For a server: `under_in_background NAME PROG…`, and later `finished NAME`, which passes its exit
# status on.
under_in_background() {
    local name=$1
    shift
    "$COMPAT_RUNNER" compat-run --report "$COMPAT_REPORT" -- "$@" &
    eval "$name=\$!"
}
finished() {
    local status=0
    wait "${!1}" || status=$?
    echo "$1 ended with $status"
}
# Tries again until it works; gives up when the server named first has ended.
patiently() {
    local name=$1
    shift
    until "$@" >/dev/null 2>&1; do
        kill -0 "${!name}" 2>/dev/null || { echo "$name ended too early"; return 1; }
        sleep 0.05
    done
}
free_port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
digest() { sha256sum | cut -c1-16; }
setup() { :; }
