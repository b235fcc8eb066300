#!/usr/bin/env bash
# The HTTP door beside nginx: a tensor of 600 KB there and back over one connection of this host, in medians.
# bench/http_door.sh BUILD. ROUNDS (5) of REQUESTS (400) each; the two take turns.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:-build}/bin
[ -x "$bin/gpuwire" ] || { echo "bench/http_door.sh: no build there: $bin/gpuwire is missing (make tests builds in build; or name the folder)" >&2; exit 2; }
export GPUWIRE_NIC=${GPUWIRE_NIC:-addr=127.0.0.1,verbose=0}
command -v nginx >/dev/null || { echo "skipped: nginx is not installed"; exit 0; }
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$work"' EXIT
port=$(python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])")

# nginx has no echo of its own. Here `mirror` has the whole body read, the error page of a missing file then answers it.
cat >"$work/nginx.conf" <<END
daemon off; worker_processes 1; error_log $work/error.log crit; pid $work/pid;
events {}
http {
    access_log off; keepalive_requests 1000000000; client_body_temp_path $work; proxy_temp_path $work; fastcgi_temp_path $work;
    uwsgi_temp_path $work; scgi_temp_path $work;
    server {
        listen 127.0.0.1:$port;
        root $work/nothing; client_max_body_size 4m; client_body_buffer_size 2m;
        location / { mirror /none; mirror_request_body on; error_page 404 405 =200 @echo; }
        location = /none { internal; return 204; }
        location @echo { default_type application/octet-stream; return 200 \$request_body; }
    }
}
END
nginx -p "$work" -c "$work/nginx.conf" &
pids+=($!)
bench/http_door.py --write-model "$work/models/identity600/1"
"$bin/gpuwire" serve --models "$work/models" --exec cpu --port 0 >"$work/says" &
pids+=($!)
for _ in $(seq 100); do grep -q port "$work/says" && break || sleep 0.1; done
bench/http_door.py "$(sed -n 's/.*HTTP on port \([0-9]*\).*/\1/p' "$work/says")" "$port" "${ROUNDS:-5}" "${REQUESTS:-400}"
