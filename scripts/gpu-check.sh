#!/usr/bin/env bash
# The tests that need an NVIDIA GPU. Runs from a bundle (`make bundle`), with no network and nothing installed.
# Exit code 0 when all passed. A test that finds no GPU (exit code 77) counts as failed here, but for one that takes two.
set -u
cd "$(dirname "$0")"
if [ ! -e gpu-tests.txt ]; then
    echo "gpuwire: this runs from a bundle: \`make gpu-check\` makes one, and runs it there" >&2
    exit 2
fi
# A kernel that is loaded lazily waits for the device to be idle, which it never is while a resident loop runs.
export CUDA_MODULE_LOADING=EAGER
export GPUWIRE_NIC=${GPUWIRE_NIC:-addr=127.0.0.1} GPUWIRE=$PWD/bin/gpuwire
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
passed=0 failed=0

check() { # check SECONDS NAME COMMAND…
    local limit=$1 name=$2 start=$SECONDS
    shift 2
    timeout --kill-after=5 "$limit" "$@" >"$logs/log" 2>&1
    local rc=$?
    if [ "$rc" -eq 0 ]; then
        passed=$((passed + 1))
        printf 'ok      %-40s %3d s\n' "$name" $((SECONDS - start))
        grep -E '^(measured|gpu|bench):' "$logs/log" | sed 's/^/        /'
    elif [ "$rc" -eq 77 ] && grep '^skipped: this takes two GPUs' "$logs/log" >"$logs/skipped"; then
        printf 'skipped %-40s %s\n' "$name" "$(cut -c 10- "$logs/skipped")"
    else
        failed=$((failed + 1))
        printf 'FAILED  %-40s %3d s (exit code %d)\n' "$name" $((SECONDS - start)) "$rc"
        tail -n 25 "$logs/log" | sed 's/^/        /'
    fi
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || true
while read -r limit name args; do
    case $limit in '' | '#'*) continue ;; esac
    # shellcheck disable=SC2086  # the manifest's arguments are separate words
    check "$limit" "$name $args" "tests/$name" $args # one that the bundle lacks fails, too
done < gpu-tests.txt

# CUDA's own tool, where there is one, checks each access of the device API's kernels to memory, and of a block's threads to
# what they share. It is several times slower, so only the tests of every form run with it.
sanitizer=$(command -v compute-sanitizer || find /usr/local/cuda*/bin -maxdepth 1 -name compute-sanitizer 2>/dev/null | tail -n 1)
if [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck; do
        # What CUDA refuses is the library's to handle, and no finding.
        api=()
        [ $tool = memcheck ] && api=(--report-api-errors no)
        for test in test_tickets test_many_threads test_receive; do
            check 180 "$tool $test" "$sanitizer" --tool $tool "${api[@]}" --error-exitcode 9 tests/test_verbs_post --exec gpu --test $test
        done
    done
else
    echo "skipped compute-sanitizer: it is not on this machine (it comes with CUDA's toolkit)"
fi
# Modules served from Python, where there is PyTorch.
if python3 -c 'import torch, numpy' 2>/dev/null; then
    check 300 "python tests/python/gpu_serving.py" \
        env "PYTHONPATH=$PWD/python" "GPUWIRE_LIBRARIES=$PWD/lib" python3 tests/python/gpu_serving.py
    # NCCL opens libibverbs by its name.
    nccl=(env "LD_LIBRARY_PATH=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" python3 tests/python/gpu_nccl.py)
    check 450 "python tests/python/gpu_nccl.py" "${nccl[@]}"
    check 450 "python tests/python/gpu_nccl.py --faults" "${nccl[@]}" --faults
    # NCCL finds libibverbs in LD_LIBRARY_PATH, and gpuwire's libraries find theirs beside them.
    check 450 "python tests/python/gpu_torch.py" env "PYTHONPATH=$PWD/python" "GPUWIRE_LIBRARIES=$PWD/lib" \
        "${nccl[@]:1:1}" python3 tests/python/gpu_torch.py
else
    echo "skipped python: PyTorch and numpy are not installed for python3"
fi
check 60 "gpuwire info" bin/gpuwire info
for args in "post --by warp --verify" "bw -o put -n 500 --verify --loopback" "bw -o send -n 500 --verify --loopback" \
    "bw -o put_imm -n 500 --verify --loopback --buffers mapped" "msgrate --by block -o get --verify -n 2000 --loopback" \
    "sock lat --verify --loopback" "sock bw --verify -q 4 -n 500 --loopback" "sock connects -n 50 --loopback" \
    "sock lat --rdma --verify --loopback" "sock bw --rdma --verify -q 4 -n 500 --loopback" "sock connects --rdma -n 50 --loopback" \
    "lat -o put --loopback" "lat -o put_imm --loopback" "lat -o send --loopback" "lat -o fetch_add --loopback"; do
    # shellcheck disable=SC2086  # separate words
    check 60 "perf $args" bin/gpuwire perf $args --exec gpu --csv
done
# What a GPU of Hopper's never does, the software NIC does in its place: data that comes after its completion, rings that
# get lost, and a NIC that dies while a kernel waits for it.
for args in "lat -o put_imm -s 4k -n 300" "lat -o send -s 4k -n 300" "bw -o get -s 4k -n 300"; do
    # shellcheck disable=SC2086  # separate words
    check 60 "late data, perf $args" env "GPUWIRE_NIC=$GPUWIRE_NIC,hostile=1,gpuorder=none" GPUWIRE_GPU_FLUSH=1 \
        bin/gpuwire perf $args --verify --loopback --exec gpu --csv
done
check 60 "rings that get lost" env "GPUWIRE_NIC=$GPUWIRE_NIC,gpurings=lost" sh -c \
    'bin/gpuwire info | tee /dev/stderr | grep -q "proxy-doorbell, .*works, chosen"'
check 60 "a NIC that dies" sh -c 'bin/gpuwire perf lat --exec gpu --loopback -D 45 & sleep 10
    bin/gpuwire nic --pid $! --event device-fatal && { wait $!; [ $? = 1 ]; }'
check 120 "demo --exec gpu" bin/gpuwire demo --exec gpu --out "$logs/out.png"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
