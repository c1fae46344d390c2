setup() {
    # Commands with known results, as redis-cli --pipe reads them.
    /usr/bin/python3 - >commands <<'END'
import sys
def command(*words):
    out = sys.stdout.buffer
    out.write(b"*%d\r\n" % len(words))
    for word in words:
        word = str(word).encode()
        out.write(b"$%d\r\n%s\r\n" % (len(word), word))
for i in range(40000):
    command("SET", f"s:{i}", "x" * (i * 31 % 700))
    command("HSET", f"h:{i % 500}", f"f{i}", i)
    command("RPUSH", f"l:{i % 200}", i)
    command("ZADD", f"z:{i % 100}", i * 7919 % 1000, i)
    if i % 3 == 0:
        command("APPEND", f"s:{i // 2}", i)
    if i % 5 == 0:
        command("DEL", f"s:{i // 5}")
END
}
serve() {
    under_in_background SERVER redis-server --port 0 --unixsocket redis.sock --save '' --appendonly no --daemonize no \
        --dir "$PWD" --enable-debug-command yes "$@" >>server.log
    patiently SERVER client -e ping
}
client() { redis-cli -s redis.sock "$@"; }
# Saves in the background are done; how the last one went.
saved() {
    until client info persistence | grep -q 'rdb_bgsave_in_progress:0'; do sleep 0.02; done
    client info persistence | grep rdb_last_bgsave_status | tr -d '\r'
}
run() {
    serve
    client --pipe <"$HERE/commands" | tail -n 1
    client debug digest
    # Children write what there is while the parent goes on.
    redis-benchmark -s redis.sock -q -n 60000 -c 8 -P 8 -d 200 -r 20000 -t set,get,incr,lpush,lpop,sadd,hset,zadd,mset >load.log &
    local load=$!
    for _ in 1 2 3; do
        client bgsave >/dev/null
        saved
    done
    wait "$load"
    client bgrewriteaof >/dev/null
    until client info persistence | grep -q 'aof_rewrite_in_progress:0'; do sleep 0.02; done
    client memory purge
    client config set activedefrag yes >/dev/null 2>&1 || true
    client save
    local before after
    before=$(client debug digest)
    client shutdown nosave || true
    finished SERVER
    serve
    after=$(client debug digest)
    [[ $before == "$after" ]] && echo 'the same after a restart'
    client shutdown nosave || true
    finished SERVER
    grep -E 'crash|signal|bug report' -i server.log | grep -v 'signal-handler' || true
}
