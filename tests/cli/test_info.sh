#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpuwire info: what works, each way tried; and each thing that can be made to fail here says why and what mends it.
. "$(dirname "$0")/../integration/lib.sh"
export GPUWIRE_NIC=addr=$net.1 GPUWIRE_DEVICE=softnic
unset GPUWIRE_POST

# says CODE WORDS… -- ARGS…: the exit code, and each of the words in what it prints.
says() {
    local code=$1 rc words=() w
    shift
    while [ "$1" != -- ]; do words+=("$1") && shift; done
    shift
    timeout -k 5 "$patience" "$GPUWIRE" info "$@" >"$work/info.out" 2>&1
    rc=$?
    [ $rc = "$code" ] || fail "info $*: exit code $rc, not $code"
    for w in "${words[@]}"; do grep -q -- "$w" "$work/info.out" || fail "info $*: nothing of '$w'"; done
}
says 0 '^executor .*cpu' '^NIC .*software NIC' "address $net.1" 'direct, .*: works, chosen' 'proxy-doorbell, .*: works$' \
    'proxy-post, .*: works$' '^memory .*: works' '^connections .*rdma_cm: works' -- --exec cpu
for mode in direct proxy-doorbell proxy-post; do
    GPUWIRE_POST=$mode says 0 "$mode, .*: works, chosen" "chosen because: GPUWIRE_POST=$mode" -- --exec cpu
done
GPUWIRE_POST=dircet says 1 'it must be auto, direct' -- --exec cpu
GPUWIRE_NIC=addr=192.0.2.77 says 1 '192.0.2.77 is no address of this host; give one' '^NIC .*none' -- --exec cpu
GPUWIRE_NIC=adr=1 says 1 'adr' '^NIC .*none' -- --exec cpu
GPUWIRE_DEVICE=mlx5_77 says 1 'no RDMA device called mlx5_77' '^hardware' -- --exec cpu
says 1 'no RDMA device called mlx5_77' -- --exec cpu --device mlx5_77
GPUWIRE_SOFTNIC_LIBRARY=$work/none.so says 1 "$work/none.so" -- --exec cpu
# A network namespace as it is made, where the loopback interface is down.
space=
for how in 'unshare -n' 'unshare -rn'; do $how true 2>/dev/null && space=$how && break; done
if [ -n "$space" ]; then
    printf '#!/bin/bash\nexec %s "%s" "$@"\n' "$space" "$GPUWIRE" >"$work/lo_down" && chmod +x "$work/lo_down"
    (
        GPUWIRE=$work/lo_down
        says 1 'gpuwire info: lo is down in this network namespace.*`ip link set lo up`' 'note: lo is down' \
            "^gpuwire: .*lo is down in this network namespace, and packets to $net.1 get lost" -- --exec cpu
        ! grep -q 'works' "$work/info.out" || fail "lo is down, and something works"
    ) || exit 1
else
    echo "no network namespaces here: lo was not down"
fi
# Too few file descriptors, wherever they end: the remedy is named, and no other. Those that the test was given are closed
# first. A sanitizer needs some of its own.
for few in 6 7 8; do
    [ -z "${SANITIZER:-}" ] || break
    (
        for fd in {3..200}; do eval "exec $fd>&-"; done
        ulimit -n "$few"
        says 1 '^gpuwire: .*file.*`ulimit -n`' -- --exec cpu
        ! grep -q 'XDG_RUNTIME_DIR' "$work/info.out" || fail "$few file descriptors: a folder is blamed"
    ) || exit 1
done
says 2 '--exec tpu: must be gpu, cpu or auto' -- --exec tpu
says 2 '--devise: no such option' -- --devise softnic
says 2 '--device: it wants a value' -- --device
says 2 'everything: not understood' -- everything
if ! nvidia-smi -L >/dev/null 2>&1; then
    says 1 'gpuwire info: no GPU: \|gpuwire info: this build has no GPU executor: build it where' -- --exec gpu
    says 0 'no GPU: ' -- --exec auto
fi

# ---- what only a GPU or a real NIC can lack, on machines that pretend: $1 is `gpuwire info` with a GPU made of host memory
[ -z "${SANITIZER:-}" ] || { echo "no machines that pretend: what they preload would come before the sanitizer"; nothing_left; exit 0; }
# They are copied: another user of this test may not be able to look into the build tree.
build=$work/tree info=$work/tree/bin/fake_gpu_info nic=$work/tree/lib/libgpuwire-softnic.so
chmod 711 "$work" && mkdir -p "$build/bin" "$build/lib"
cp "$1" "$build/bin" && cp "${1%/*}/../lib/libgpuwire-softnic.so" "$build/lib" && cp -r "${1%/*}/../"{fake,fake_cuda,fake_cuda_514} "$build" ||
    fail "copying what pretends"
# on CODE WORDS… -- VARIABLES… ARGS…: as says, of that tool.
on() {
    local GPUWIRE=$work/on
    says "$@"
}
cat >"$work/on" <<END
#!/bin/bash
shift # info
while [[ \$1 = *=* ]]; do export "\$1" && shift; done
exec "$info" "\$@"
END
chmod +x "$work/on"
export LD_LIBRARY_PATH=$build/fake_cuda
on 0 '^executor .*made of host memory' 'direct, .*: works, chosen' 'mapped host memory: works$' 'GPU memory by its address: works, chosen' \
    'GPU memory as a dma-buf: works$' -- --exec gpu
on 0 'GPU 0 copies: copy engines alone, .*cuModuleLoadData: CUDA_ERROR_JIT_COMPILER_NOT_FOUND (221): install' -- --exec gpu
grep -q "other GPUs' memory" "$work/info.out" && fail 'there is one GPU'
on 0 'GPU 0 copies: a kernel where' "other GPUs' memory: through the host's memory, .* GPU 1: no peer access.*topo -p2p" -- FAKE_CUDA=copy_kernel,two
on 0 'copies: copy engines alone, as GPUWIRE_NIC says' "other GPUs' memory: straight from GPU 1" -- FAKE_CUDA=two,peers \
    GPUWIRE_NIC="$GPUWIRE_NIC,gpucopy=engine"
on 0 'direct, .*: no: .*CUDA error 800.*it takes CAP_SYS_ADMIN .*--cap-add SYS_ADMIN.*PeerMappingOverride=1' 'proxy-doorbell, .*: works, chosen' \
    'chosen because: .*CUDA error 800' -- FAKE_GPU_IO=refused
on 1 'kernels cannot ring it: the NVIDIA driver may not map' -- FAKE_GPU_IO=refused GPUWIRE_POST=direct
on 0 '^memory .*mapped host memory: works, chosen' 'by its address: no: .*the software NIC copies by the GPU driver' \
    'dma-buf: no: CUDA error 801: it takes the open kernel modules' -- FAKE_CUDA=opaque,no_dmabuf
for is in 'none no NVIDIA driver.*install the driver' 'old-driver knows CUDA up to 11.4, this program needs 12.8: update it' \
    'hidden sees no GPU (is CUDA_VISIBLE_DEVICES set' 'old capability 6.1; 7.5 or newer' 'broken error 999.*does `nvidia-smi` work'; do
    on 0 '^executor .*cpu' "no GPU: .*${is#* }" -- FAKE_GPU_IS="${is%% *}"
    on 1 "gpuwire info: no GPU: .*${is#* }" -- FAKE_GPU_IS="${is%% *}" --exec gpu
done

# The software NIC, unknown as such: to the library it is a ConnectX.
real=(LD_PRELOAD="$build/fake/pretend.so" PRETEND_REAL="$nic" GPUWIRE_DEVICE=)
name=$(env "${real[@]}" ibv_devices 2>/dev/null | awk 'NR == 3 { print $1 }')
[ -n "$name" ] || fail "no device that pretends to be real"
real+=(GPUWIRE_DEVICE="$name")
on 0 "^NIC  *$name," 'by its address (peer memory): works' 'as a dma-buf: works, chosen' 'rdma_cm: works' 'locked memory: ' -- "${real[@]}"
on 0 'by its address (peer memory): no: .*`modprobe nvidia_peermem`' 'as a dma-buf: works, chosen' -- "${real[@]}" FAKE_CUDA=opaque
on 0 '(peer memory): works, chosen' 'dma-buf: no: CUDA error 801: it takes the open kernel modules' -- "${real[@]}" FAKE_CUDA=no_dmabuf
on 0 'dma-buf: no: this GPU driver exports none: it takes 515 or newer' -- "${real[@]}" LD_LIBRARY_PATH="$build/fake_cuda_514"
on 0 'mapped host memory: works, chosen' 'dma-buf: no: ' '(peer memory): no: ' -- "${real[@]}" FAKE_CUDA=opaque,no_dmabuf
on 0 'dma-buf: no: no memory: .*BAR1: `nvidia-smi' -- "${real[@]}" PRETEND_REFUSE=bar1
# Whether completions find their data in GPU memory, and what is done where they do not.
on 0 'order: completions find their data in GPU memory' -- "${real[@]}"
grep -q 'READ from' "$work/info.out" && fail 'a GPU that promises the order'
on 0 'order: the GPU does not promise .* data: its compute capability is below 9.0' 'READ from its memory' -- "${real[@]}" FAKE_CUDA=ampere
on 0 'order: the GPU does not promise .* data: completions reach it by its coherent link' -- "${real[@]}" FAKE_CUDA=coherent
on 0 'order: the GPU does not promise .* data: GPUWIRE_GPU_FLUSH=1' 'setting: GPUWIRE_GPU_FLUSH=1' -- "${real[@]}" GPUWIRE_GPU_FLUSH=1
on 0 'rdma_cm: no: no rdma_cm on this machine (`modprobe rdma_ucm`' -- "${real[@]}" PRETEND_REFUSE=no_rdma_cm
on 0 'rdma_cm: no: .*read and write for /dev/infiniband/rdma_cm' -- "${real[@]}" PRETEND_REFUSE=cm_permission
(
    ulimit -l 64
    on 0 'host memory: no: .*may lock 64 KiB of memory; raise that (`ulimit -l unlimited`' -- "${real[@]}" PRETEND_REFUSE=locked
) || exit 1
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    # Another user, who may read nothing of the test's own scratch folder, has a folder to run in.
    mkdir -m 777 "$work/nobody"
    user() { XDG_RUNTIME_DIR=$work/nobody setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
    (ulimit -l 64 && user env "${real[@]}" "$info" --exec cpu) >"$work/locked.out" 2>&1
    [ $? = 0 ] && grep -q 'locked memory: 64 KiB at most.*raise it' "$work/locked.out" || fail 'the limit of locked memory'
fi

# A machine with a ConnectX, as far as /sys and /dev tell, in a namespace of its own.
machine() { # COMMAND…: with $state, $type, $vendor, $modalias, $mode (of the device's file; none: there is none)
    unshare -m bash -c '
        mount -t tmpfs none /sys/class && { mkdir -p /dev/infiniband; mount -t tmpfs none /dev/infiniband; } || exit 99
        nic=/sys/class/infiniband/mlx5_7 verbs=/sys/class/infiniband_verbs
        mkdir -p $nic/ports/1 $nic/device $verbs/uverbs3
        echo 6 >$verbs/abi_version && echo mlx5_7 >$verbs/uverbs3/ibdev && echo 1 >$verbs/uverbs3/abi_version
        echo 231:195 >$verbs/uverbs3/dev
        [ -z "$vendor" ] || echo "$vendor" >$nic/device/vendor
        echo 0x1017 >$nic/device/device
        echo "$type" >$nic/node_type && echo "$state" >$nic/ports/1/state
        [ -z "$modalias" ] || echo "$modalias" >$nic/device/modalias
        [ "$mode" = none ] || { mknod /dev/infiniband/uverbs3 c 231 195 && chmod "$mode" /dev/infiniband/uverbs3; }
        "$@"' machine "$@"
}
real_nic() { # WORDS: what is said of it when it is named, and when it is not, and the software NIC used
    local words=$1 how
    for how in "" mlx5_7; do
        GPUWIRE_DEVICE=$how machine setpriv --reuid=65534 --regid=65534 --clear-groups env XDG_RUNTIME_DIR="$work/nobody" \
            timeout -k 5 "$patience" "$info" --exec cpu >"$work/machine.out" 2>&1
        [ $? = $((${#how} > 0)) ] || fail "a ConnectX: $words: exit code"
        grep -q -e "$words" "$work/machine.out" || fail "a ConnectX: nothing of '$words'"
        grep -q "^hardware     mlx5_7${how:-, not used: }" "$work/machine.out" || [ "$how" ] || fail "a ConnectX: not why it is not used"
    done
}
if [ -d "$work/nobody" ] && machine true 2>/dev/null; then
    export state="4: ACTIVE" type="1: CA" vendor=0x15b3 mode=600
    export modalias=pci:v000015B3d00001017sv000015B3sd00000020bc02sc00i00
    real_nic 'no permission for /dev/infiniband/uverbs3: `chmod 666` it'
    mode=none real_nic 'there is no /dev/infiniband/uverbs3; in a container pass'
    modalias= real_nic 'libibverbs does not know mlx5_7: `modprobe ib_uverbs`, and install its driver'
    how=; state="1: DOWN" GPUWIRE_DEVICE= machine "$GPUWIRE" info --exec cpu >"$work/machine.out" 2>&1
    grep -q 'not used: mlx5_7: port 1 is not active; check the cable and `ip link`' "$work/machine.out" || fail "a port that is down"
    vendor= GPUWIRE_DEVICE= machine "$GPUWIRE" info --exec cpu >"$work/machine.out" 2>&1
    grep -q 'not used: mlx5_7 is made of software' "$work/machine.out" || fail "rxe"
    type="4: RNIC" vendor=0x8086 GPUWIRE_DEVICE= machine "$GPUWIRE" info --exec cpu >"$work/machine.out" 2>&1
    grep -q 'not used: mlx5_7 is no RoCE or InfiniBand NIC' "$work/machine.out" || fail "iWARP"
    # Of two NICs the one next to the GPU, whatever its name. (It cannot be opened, and the line names it.)
    near() { # NIC GPU-BUS: what is chosen
        vendor=0x15b3 type="1: CA" state="4: ACTIVE" mode=600 machine bash -c '
            mount -t tmpfs none /sys/bus && mount -t tmpfs none /sys/devices || exit 99
            for at in pci0000:15/0000:15:01.0/0000:18:00.0 pci0000:15/0000:15:01.0/0000:19:00.0 pci0000:97/0000:97:01.0/0000:98:00.0; do
                mkdir -p /sys/devices/$at /sys/bus/pci/devices
                case $at in *97*) echo 1 ;; *) echo 0 ;; esac >/sys/devices/$at/numa_node
                echo 0x15b3 >/sys/devices/$at/vendor
                ln -s /sys/devices/$at /sys/bus/pci/devices/${at##*/}
            done
            rm -r /sys/class/infiniband/mlx5_7/device
            cp -r /sys/class/infiniband/mlx5_7 /sys/class/infiniband/mlx5_9
            ln -s /sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0 /sys/class/infiniband/mlx5_7/device
            ln -s /sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0 /sys/class/infiniband/mlx5_9/device
            "$@"' near env GPUWIRE_DEVICE= FAKE_GPU_BUS="$2" timeout -k 5 "$patience" "$info" --exec "${3:-gpu}" >"$work/near.out" 2>&1
        grep -q "not used: .*$1\\b" "$work/near.out" || fail "next to GPU $2: not $1: $(cat "$work/near.out")"
    }
    near mlx5_9 0000:18:00.0
    near mlx5_9 0000:18:00.0 gpu
    near mlx5_7 0000:98:00.0
    near mlx5_7 0000:18:00.0 cpu # by name
    # Nothing to fall back to either.
    GPUWIRE_SOFTNIC_LIBRARY=/nowhere.so GPUWIRE_DEVICE= machine "$info" --exec cpu >"$work/machine.out" 2>&1
    grep -q 'no network device works: cannot open mlx5_7.*, and .*/nowhere.so' "$work/machine.out" || fail "no NIC at all"
else
    echo "not as root: no machine with a ConnectX was pretended"
fi

# Peers of one host: what keeps them from copying.
if "$2" true; then
    on() {
        local GPUWIRE=$work/denied
        says "$@"
    }
    # The remedy is named, too.
    printf '#!/bin/bash\nexec "%s" "%s" "$@"\n' "$2" "$GPUWIRE" >"$work/denied"
    chmod +x "$work/denied"
    on 0 '^same host .*shared memory.*ptrace_scope=0, or in a container a filter that allows process_vm_readv' -- --exec cpu
fi
nothing_left
