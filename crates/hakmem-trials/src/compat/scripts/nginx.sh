run() {
    mkdir -p html temp
    cp "$IN/short.txt" html/text.txt
    head -c 300 "$IN/short.txt" >html/small.txt
    local port
    port=$(free_port)
    cat >nginx.conf <<END
worker_processes 2;
daemon off;
pid $PWD/nginx.pid;
error_log stderr warn;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path $PWD/temp/a; proxy_temp_path $PWD/temp/b; fastcgi_temp_path $PWD/temp/c;
    uwsgi_temp_path $PWD/temp/d; scgi_temp_path $PWD/temp/e;
    gzip on; gzip_types text/plain; gzip_min_length 100;
    server {
        listen 127.0.0.1:$port;
        root $PWD/html;
        location /through/ { proxy_pass http://127.0.0.1:$port/; proxy_buffers 16 4k; }
    }
}
END
    under_in_background SERVER /usr/sbin/nginx -p "$PWD" -e stderr -c "$PWD/nginx.conf" 2>server.log
    patiently SERVER bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"
    local url=http://127.0.0.1:$port
    load() { ab -q "$@" 2>&1 | grep -E '^(Complete|Failed|Non-2xx|Total of)|^apr_|^ab:' | tr -s ' '; }
    load -n 20000 -c 16 -k "$url/small.txt"
    load -n 5000 -c 16 "$url/through/small.txt"
    load -n 100 -c 8 -H 'Accept-Encoding: gzip' "$url/text.txt"
    # New workers take over from the old ones under load.
    load -n 5000 -c 8 "$url/small.txt" &
    local running=$!
    kill -HUP "$(cat nginx.pid)"
    wait "$running"
    for path in small.txt text.txt through/text.txt; do
        /usr/bin/python3 -c 'import sys, urllib.request; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1]).read())' "$url/$path" | digest
    done
    kill -QUIT "$(cat nginx.pid)"
    finished SERVER
    grep -E 'signal|alert|emerg' server.log | sed -E 's/^[^[]*//; s/[0-9]+#[0-9]+://; s/process [0-9]+/process/' || true
}
