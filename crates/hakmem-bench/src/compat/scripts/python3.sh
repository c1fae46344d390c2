# What the tests say of themselves, in any order: their times, random seeds and temporary names go.
outcomes() {
    grep -E ' \.\.\. (ok|FAIL|ERROR|skipped.*)$|^(FAIL|ERROR):|^Fatal|^Total test files|^Result' |
        sed -E 's/ run=[0-9,]+//; s/0x[0-9a-f]+/0x/g' | sort
}
run() {
    under /usr/bin/python3 -m test -v test_json 2>&1 | outcomes
    under /usr/bin/python3 -m test -v test_threading test_thread test_threading_local 2>&1 | outcomes
    under /usr/bin/python3 -m test -v test_ctypes 2>&1 | outcomes
    under /usr/bin/python3 -m test -v test_multiprocessing_fork -m 'WithProcessesTestPool' -m 'WithProcessesTestQueue' \
        -m 'WithThreadsTestPool' -m 'WithManagerTestManagerRestart' -m 'WithProcessesTestSharedMemory' 2>&1 | outcomes
    PYTHONMALLOC=malloc under /usr/bin/python3 "$IN/objects.py"
    PYTHONMALLOC=malloc under /usr/bin/python3 -m test -v test_json 2>&1 | outcomes
}
