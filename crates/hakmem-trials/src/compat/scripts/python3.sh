# What the tests say of themselves in the end: how many there were, and which failed. Not their
# lines one by one, which children write into.
outcomes() {
    grep -oE '^(Ran [0-9]+ tests?|OK.*|FAILED.*|FAIL: .*|ERROR: .*|Fatal.*|Tests result: .*)' || echo 'no outcome'
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
