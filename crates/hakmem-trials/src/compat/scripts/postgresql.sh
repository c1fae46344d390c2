run() {
    local bin
    bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
    under "$bin/initdb" -D data -A trust -U tester --no-sync --no-locale -E UTF8 >initdb.log
    under_in_background SERVER "$bin/postgres" -D data -k "$PWD" -c listen_addresses= -c fsync=off -c logging_collector=off 2>server.log
    export PGHOST=$PWD PGUSER=tester PGDATABASE=postgres
    patiently SERVER "$bin/pg_isready"
    "$bin/pgbench" -q -i -s 2 2>/dev/null
    # A process for each transaction.
    "$bin/pgbench" -n -C -c 4 -j 2 -t 150 --random-seed=1 2>&1 | grep -E 'transactions actually|failed'
    "$bin/pgbench" -n -c 4 -j 2 -t 1000 --random-seed=2 2>&1 | grep -E 'transactions actually|failed'
    "$bin/psql" -q -At -f "$FILES/tables.pg.sql" 2>/dev/null
    "$bin/pg_dump" --schema-only | grep -vE '^.(un)?restrict ' | digest
    kill -INT "$SERVER"
    finished SERVER
    # Lines that say that something is wrong: a process that crashed is among them. Not that the
    # server was not ready yet, or that it ended an autovacuum.
    grep -E 'PANIC|FATAL|ERROR|terminated by signal' server.log | grep -vE 'is starting up|not yet accepting|(terminating|canceling) autovacuum' | sed -E 's/^[^]]*\] *//' || true
}
