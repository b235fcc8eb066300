#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `gpuwire serve --config FILE`: what the file says holds, the command line wins, and each mistake is named by file and line.
. "$(dirname "$0")/lib.sh" || exit 1
need curl
cd "$work" || exit 1
models=$source_dir/tests/server/models

# refused CODE 'TEXT' LINES: a file with these lines is refused in one line that has TEXT.
refused() {
    local rc
    printf '%b' "$3" >wrong.conf
    timeout "$patience" "$GPUWIRE" serve --config wrong.conf >stdout.txt 2>stderr.txt
    rc=$?
    [ "$rc" = "$1" ] || { cat stdout.txt stderr.txt; fail "$3: exit code $rc, not $1"; }
    grep -qF -- "$2" stderr.txt || { cat stderr.txt; fail "$3: no '$2'"; }
    [ "$(wc -l <stderr.txt)" = 1 ] || { cat stderr.txt; fail "$3: more than one line"; }
}
refused 2 'wrong.conf:1: max-batch 0: must be a number from 1' 'max-batch = 0\n'
refused 2 'wrong.conf:3: port eighty: must be a number' '# a comment\n\nport = eighty'
refused 2 'wrong.conf:2: exec tpu: must be gpu, cpu or auto' 'port=0\nexec = tpu\n'
refused 2 'wrong.conf:1: grpc on: must be a number' 'grpc = on\n'
refused 2 'wrong.conf:1: nonsense: no such setting' 'nonsense = 1\n'
refused 2 'wrong.conf:1: --port: no such setting' '--port = 1\n'
refused 2 'wrong.conf:1: por: no such setting' 'por = 1\n'
refused 2 'wrong.conf:1: config: no such setting' 'config = other.conf\n'
refused 2 'wrong.conf:1: help: no such setting' 'help = yes\n'
refused 2 'wrong.conf:2: slots: it is set twice' 'slots = 4\nslots = 4\n'
refused 2 'wrong.conf:2: open-health: it is set twice' 'open-health = no\nopen-health = yes\n'
refused 2 'wrong.conf:1: open-health maybe: must be yes or no' 'open-health = maybe\n'
refused 2 'wrong.conf:1: port: it wants a value' 'port = # none\n'
refused 2 'wrong.conf:1: port: expected NAME = VALUE' 'port\n'
refused 2 'wrong.conf:1: expected NAME = VALUE' ' = 8000\n'
refused 1 'a byte that is 0' 'port = 0\n\0\n'
refused 1 'at most 65536 bytes' "$(printf '#%70000s' x)"
rm wrong.conf
timeout "$patience" "$GPUWIRE" serve --config nothing.conf 2>stderr.txt && fail 'a file that is not there is read'
grep -q 'nothing.conf: No such file' stderr.txt || fail 'the missing file is not named'
timeout "$patience" "$GPUWIRE" serve --config . 2>stderr.txt && fail 'a directory is read'
grep -q 'Is a directory' stderr.txt || fail 'the directory is not named'

# What stays wrong until it is changed ends with 2: systemd does not start the server again and again.
for line in 'listen = example.com' 'token-file = /nonexistent' 'tls-cert = /nonexistent' 'models = /nonexistent' \
    'access-log = /nonexistent/log' 'device = mlx5_9' 'trusted-proxy = localhost' 'model = nothing'; do
    printf 'port = 0\ngrpc = off\nexec = cpu\n%s\n' "$line" >wrong.conf
    grep -q '^models' wrong.conf || echo "models = $models" >>wrong.conf
    timeout "$patience" "$GPUWIRE" serve --config wrong.conf >stdout.txt 2>stderr.txt
    rc=$?
    [ "$rc" = 2 ] || { cat stderr.txt; fail "$line: exit code $rc, not 2"; }
done
grep -q '^RestartPreventExitStatus=2$' "$source_dir/debian/gpuwire.gpuwire-serve.service" || fail 'the unit starts again after a wrong setting'

# The token guards what the file says it does, and one model is served: the command line's.
echo 0123456789abcdef0123 >'to#ken'
printf ' models = %s \r\nmodel = sum # not this one\n  # and\n\ntoken-file=to#ken\nopen-health = yes\nmodel-control = no\ngrpc = off' \
    "$models" >serve.conf
serve configured --model echo --config serve.conf
[ "$(curl -s -o answer -w '%{http_code}' "http://$server/v2/health/ready")" = 200 ] || fail 'open-health is not read'
[ "$(curl -s -o answer -w '%{http_code}' "http://$server/v2/models/echo")" = 401 ] || fail 'token-file is not read'
grep -q 'serving echo/' configured.out || { cat configured.out; fail 'the command line does not win'; }
grep -q 'gRPC' configured.out && fail 'grpc = off is not read'
stop_worker
all_gone
