setup() {
    # The system's tables, once: the script that makes them is not what is tested.
    mariadb-install-db --no-defaults --datadir="$PWD/data" --auth-root-authentication-method=normal --skip-test-db >install.log 2>&1
}
client() { mariadb --no-defaults --socket=m.sock --user=root "$@"; }
load() {
    sysbench --db-driver=mysql --mysql-socket="$PWD/m.sock" --mysql-user=root --mysql-db=bench --tables=2 --table-size=8000 \
        --rand-seed=1 --threads=4 "$@"
}
run() {
    cp -r "$HERE/data" data
    under_in_background SERVER mariadbd --no-defaults --datadir="$PWD/data" --socket="$PWD/m.sock" --skip-networking \
        --pid-file="$PWD/m.pid" --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0 --innodb-use-native-aio=0 2>server.log
    patiently SERVER client -e 'SELECT 1'
    client -e 'CREATE DATABASE bench'
    load oltp_read_write prepare | grep -c 'Inserting'
    load oltp_read_write --events=1500 --time=0 run | grep -E 'total number of events|transactions:' | sed -E 's/\(.*//'
    load oltp_point_select --events=10000 --time=0 run | grep -E 'total number of events'
    # A connection, and so a thread, for each.
    for i in $(seq 100); do client -N -e "SELECT REPEAT('x', $i)"; done | digest
    client bench -N -e 'SELECT COUNT(*) FROM sbtest1; CHECK TABLE sbtest1, sbtest2;'
    client bench -N <"$FILES/tables.maria.sql"
    mariadb-admin --no-defaults --socket=m.sock --user=root shutdown
    finished SERVER
    grep -E 'got signal|\[ERROR\]' server.log | sed -E 's/^.*\[ERROR\]/[ERROR]/' || true
}
