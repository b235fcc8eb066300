#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whatever is wrong with a call, a file or the other side: one clear line, exit code 2 for usage and 1 for failure.
. "$(dirname "$0")/lib.sh" || exit 1
need curl python3
models=$source_dir/models
cd "$work" || exit 1

# expect CODE 'TEXT' ARGS...: `gpuwire ARGS` says one line with TEXT on standard error and nothing else, and exits so.
expect() {
    local code=$1 text=$2 rc
    shift 2
    timeout "$patience" "$GPUWIRE" "$@" >stdout.txt 2>stderr.txt
    rc=$?
    [ "$rc" = "$code" ] || { cat stdout.txt stderr.txt; fail "gpuwire $*: exit code $rc, not $code"; }
    grep -q -- "$text" stderr.txt || { cat stderr.txt; fail "gpuwire $*: no '$text'"; }
    [ "$(wc -l <stderr.txt)" = 1 ] || { cat stderr.txt; fail "gpuwire $*: more than one line"; }
    [ -s stdout.txt ] && { cat stdout.txt; fail "gpuwire $*: says something on standard output"; }
}

# ---- usage
for c in serve infer load demo; do
    expect 2 '--nonsense: no such option' $c --nonsense
    timeout "$patience" "$GPUWIRE" $c --help | grep -q "^usage: gpuwire $c" || fail "$c --help"
done
expect 2 '--port: it wants a value' serve --port
expect 2 '--verify-echo: it takes no value' load identity --verify-echo=1
expect 2 '-z: no such option' cat --rdma -zv
expect 2 '-z: no such option' cat -vz
expect 2 '--port 65536: must be a number from 0 to 65535' serve --port 65536
expect 2 '--port eighty: must be a number' serve --port eighty
expect 2 '--port -1: must be a number' serve --port -1
expect 2 '--grpc on: must be a number' serve --grpc on
expect 2 '--sessions 0: must be a number' serve --sessions 0
expect 2 '--slots 1000: must be a number' serve --slots 1000
expect 2 '--threads x: must be a number' serve --threads x
expect 2 '--exec tpu: must be gpu, cpu or auto' serve --exec tpu
expect 2 'extra: not an option' serve extra
expect 2 '--model-repository is Triton.s: here it is --models DIR' serve --model-repository=/models
expect 2 '--http-port is Triton.s: here it is --port N' serve --http-port 8000
expect 2 '--model-repositories: no such option' serve --model-repositories /models
expect 2 'which model' infer
expect 2 'which model' load
expect 2 'give --image or --input' infer superresolution
expect 2 'give --image or --input' infer superresolution --image a --out b --input c --output d
expect 2 '--image wants --out' infer superresolution --image a
expect 2 '--image goes with --out, not' infer superresolution --image a --out b --output c
expect 2 '--out goes with --image' infer superresolution --input a --out b
expect 2 '--input =a: expected NAME=FILE' infer superresolution --input =a
expect 2 '--deadline 0: must be milliseconds up to' infer superresolution --input a --deadline 0
expect 2 '--slots 0: must be a number' infer superresolution --slots 0
expect 2 '--clients 0: must be a number' load identity --clients 0
expect 2 '--concurrency 0: expected FROM' load identity --concurrency 0
expect 2 '--concurrency 4:2: expected FROM' load identity --concurrency 4:2
expect 2 '--concurrency 1:8:1x: expected FROM' load identity --concurrency 1:8:1x
expect 2 '--concurrency 1.5: expected FROM' load identity --concurrency 1.5
expect 2 '--rate 1:1000000:1: expected FROM' load identity --rate 1:1000000:1
expect 2 '--rate 10:: expected FROM' load identity --rate 10:
expect 2 'do not go together' load identity --rate 10 --concurrency 2
expect 2 'poisson or constant' load identity --rate 10 --arrivals often
expect 2 '--window x: must be a number' load identity --window x
expect 2 '--windows 2: must be a number' load identity --windows 2
expect 2 'it does not go with --input' load identity --verify-echo --input a
expect 2 '--requests  7: must be a number' load identity --requests ' 7'
expect 2 '--exec tpu' demo --exec tpu

# ---- serve: models
expect 2 '/nonexistent: No such file' serve --port 0 --models /nonexistent
mkdir empty; expect 2 'no model in it; expected NAME/1/model.onnx' serve --port 0 --models empty
expect 2 'no model nothing in it' serve --port 0 --models "$models" --model nothing
mkdir -p cut/net/1 junk/net/1 zero/net/1
head -c 20000 "$models/superresolution/1/model.onnx" >cut/net/1/model.onnx
head -c 20000 /dev/urandom >junk/net/1/model.onnx
: >zero/net/1/model.onnx
expect 2 'cut/net/1/model.onnx' serve --port 0 --exec cpu --models cut
expect 2 'junk/net/1/model.onnx' serve --port 0 --exec cpu --models junk
expect 2 'zero/net/1/model.onnx' serve --port 0 --exec cpu --models zero
expect 2 'NoSuchOperator' serve --port 0 --exec cpu --models "$source_dir/tests/server/bad_models" --model operator
# Among others a bad model is reported, and the others are served.
mkdir -p mixed bad
cp -r "$source_dir/tests/server/models/echo" junk/net cut/net mixed && cp -r cut/net bad && cp -r cut/net bad/net2
serve mixed --models mixed
grep -q 'error: model net: version 1 cannot be served: .*mixed/net/1/model.onnx' "$work/mixed.out" || fail 'a bad model is not reported'
[ "$(curl -s -o /dev/null -w '%{http_code}' "http://$server/v2/models/echo/ready")" = 200 ] || fail 'a good model is not served beside a bad one'
stop_worker
"$GPUWIRE" serve --port 0 --exec cpu --models bad >bad.out 2>&1
[ $? = 2 ] && [ "$(wc -l <bad.out)" = 3 ] && grep -q 'bad: none of its models can be served' bad.out || fail "a repository of bad models: $(cat bad.out)"
if [ "$(id -u)" != 0 ]; then
    mkdir -p secret/net/1; : >secret/net/1/model.onnx; chmod 0 secret/net/1/model.onnx
    expect 2 'Permission denied' serve --port 0 --exec cpu --models secret
fi

# ---- serve: addresses, devices
serve first --models "$source_dir/tests/server/models"
expect 1 'Address already in use; choose another with --port' serve --port "${server#*:}" --exec cpu --models "$source_dir/tests/server/models"
expect 2 'localhost: not a numeric' serve --listen localhost --port 0 --exec cpu --models "$source_dir/tests/server/models"
expect 1 '192.0.2.7' serve --listen 192.0.2.7 --port 0 --exec cpu --models "$source_dir/tests/server/models"
expect 2 'nosuch0' serve --device nosuch0 --port 0 --exec cpu --models "$source_dir/tests/server/models"
nvidia-smi -L >nvidia.txt 2>/dev/null || expect 1 'no GPU' serve --exec gpu --port 0 --models "$models"
nvidia-smi -L >nvidia.txt 2>/dev/null || expect 1 'no GPU' demo --exec gpu
if [ "$(id -u)" != 0 ] && [ "$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)" -gt 80 ]; then
    expect 2 'ports below 1024 need privilege' serve --port 80 --exec cpu --models "$models"
fi

# ---- clients
expect 1 'is `gpuwire serve` running there' infer superresolution --server 127.0.0.1:1 --input "$models/superresolution/golden_input.npy" --output y
expect 1 'is `gpuwire serve` running there' infer superresolution --server http://127.0.0.1:1 --input "$models/superresolution/golden_input.npy"
expect 1 'is `gpuwire serve` running there' load identity --server 127.0.0.1:1 --clients 4
expect 1 'serves no model nothing' infer nothing --server "$server" --input "$models/superresolution/golden_input.npy" --output y
expect 1 'serves no model nothing' load nothing --server "$server" --clients 3
expect 1 'connections open, as many as one client may: further ones are closed (--connections-per-client)' load echo --server "http://$server" --clients 80 --requests 80
expect 1 'not a model' load '../x' --server "$server"
expect 1 'must begin with rdma://' load echo --server "ftp://$server"
expect 1 'not HOST or HOST:PORT' load echo --server "$server/x"
expect 1 'nothing.token' load echo --server "$server" --token-file nothing.token
: >empty.token; expect 1 'empty.token: it has no token' load echo --server "$server" --token-file empty.token
expect 1 'x.csv cannot be written (--csv' load echo --server "$server" --csv /nonexistent/x.csv
expect 1 'nothing.npy' load echo --server "$server" --input nothing.npy
expect 1 'the model has no input nobody' infer echo --server "$server" --input "nobody=$models/superresolution/golden_input.npy"
python3 -c 'import struct, sys; sys.stdout.buffer.write(b"\x93NUMPY\x01\x00v\x00" + b"{\x27descr\x27: \x27<f4\x27, \x27fortran_order\x27: False, \x27shape\x27: (1, 64), }".ljust(117) + b"\n" + bytes(256))' >row.npy
expect 1 'also wants input b' infer sum --server "$server" --input a=row.npy
expect 1 'input a is given twice' infer sum --server "$server" --input a=row.npy --input a=row.npy
expect 1 'which input is it for' infer sum --server "$server" --input row.npy
expect 1 'no output nobody' infer echo --server "$server" --input row.npy --output nobody=y.npy

kill -STOP "$worker"
expect 1 'is it stopped, or out of reach' infer echo --server "$server" --input row.npy
kill -CONT "$worker"

expect 1 'does not enlarge pictures' infer echo --server "$server" --image "$models/superresolution/pictures/coffee.png" --out y.png
stop_worker

serve second --models "$models" --sessions 1
expect 1 'nothing.npy' infer superresolution --server "$server" --input nothing.npy --output y.npy
expect 1 'README.md' infer superresolution --server "$server" --input "$models/README.md" --output y.npy
expect 1 'golden_output.npy' infer superresolution --server "$server" --input "$models/superresolution/golden_output.npy" --output y.npy
expect 1 'y.npy' infer identity --server "$server" --input "$models/superresolution/golden_input.npy" --output /nonexistent/y.npy
expect 1 'nothing.png' infer superresolution --server "$server" --image nothing.png --out y.png
expect 1 'README.md' infer superresolution --server "$server" --image "$models/README.md" --out y.png
expect 1 'y.png' infer superresolution --server "$server" --image "$models/superresolution/pictures/coffee.png" --out /nonexistent/y.png
expect 1 'does not answer with its input' load superresolution --server "$server" --verify-echo
[ -e y.png ] || [ -e y.npy ] && fail 'a file was written'
# One client holds the only session; the next one is told so.
"$GPUWIRE" load superresolution --server "$server" --requests 1000000 >holder.out 2>&1 &
holder=$!
pids+=("$holder")
eventually stat_is superresolution sessions_open 1 || fail 'the client does not get in'
expect 1 'all 1 sessions are taken' load superresolution --server "$server"
ends "$holder" INT
stop_worker

# ---- demo
expect 1 'nothing.png' demo --picture nothing.png
expect 1 'x.png cannot be written (--out' demo --out /nonexistent/x.png
expect 1 'Is a directory' demo --out .
expect 2 'frobnicate: no such command' frobnicate
all_gone
echo ok
