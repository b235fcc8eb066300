#!/usr/bin/env bash
# Installs what building gpuwire needs, on Debian 12 or 13 or Ubuntu 24.04; with --tests, what testing it needs as well;
# with --ci, what .ci/run needs.
# It installs nothing that is there already. Two things are left to others: what `make bench` compares the software NIC
# with (ucx-utils; without it, it skips those rows), and what `make check-interop` boots (it installs that).
set -euo pipefail

# The README's first commands are ibverbs-utils', and `make wheel` is a script in Python.
build=(
    build-essential cmake ninja-build pkg-config
    libibverbs-dev librdmacm-dev ibverbs-providers liburing-dev libisal-dev
    libdnnl-dev libprotobuf-c-dev protobuf-c-compiler libonnx-dev
    libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libpng-dev libjpeg-dev zlib1g-dev
    libnghttp2-dev libssl-dev libdpdk-dev libpmix-dev systemtap-sdt-dev
    libonig-dev libutf8proc-dev
    ibverbs-utils python3
)
# The test library; the distribution's own verbs, rdma_cm and MPI programs, and servers and clients for sockets; tshark to
# read captures; spin and tcc for models; clang for the fuzzers; Python for scripts and its package's tests; and tools for the
# bundle and the wheel. Fleets keep their state in etcd. testpmd (dpdk-dev), libcuckoo and nftables are what the balancer is
# compared with. Chromium (290 MB) looks at the server's page.
tests=(
    libcmocka-dev perftest python3-pyverbs ucx-utils rdmacm-utils infiniband-diags libfabric-bin fio
    openmpi-bin libopenmpi-dev libopenblas-serial-dev
    netpipe-tcp netcat-openbsd socat apache2-utils wrk nginx memcached libmemcached-tools libmemcached-dev redis-server redis-tools tshark spin tcc
    clang llvm jq gojq python3-venv python3-numpy python3-jinja2 openssl curl
    procps iproute2 ethtool iperf3 ccache patchelf file dpdk-dev libcuckoo-dev nftables
    etcd-server etcd-client
)
# What .ci/run looks at the sources with, and builds them with for another processor.
ci=(clang-format clang-tidy gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
packages=("${build[@]}")
case ${1:-} in
'') ;;
--tests) packages+=("${tests[@]}") ;;
--ci) packages+=("${tests[@]}" "${ci[@]}") ;;
*)
    echo "usage: scripts/setup.sh [--tests|--ci]" >&2
    exit 2
    ;;
esac

# clang's sanitizer and fuzzer runtimes are a package of their own, named after clang's version. A fresh machine learns
# that version only from `apt-get update`.
clang_runtime() {
    [[ " ${packages[*]} " = *" clang "* ]] || return 0
    apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p' | head -n 1
}

# Where the distribution has no such package, the test of the server's page is skipped.
browser() {
    [[ " ${packages[*]} " = *" clang "* ]] || return 0
    apt-cache policy chromium 2>/dev/null | sed -n 's/^ *Candidate: [0-9].*/chromium/p'
}

# So is the test of the torch.distributed back end. This PyTorch knows no GPU, and takes 48 MB to download.
pytorch() {
    [[ " ${packages[*]} " = *" clang "* ]] || return 0
    apt-cache policy python3-torch 2>/dev/null | sed -n 's/^ *Candidate: [0-9].*/python3-torch/p'
}

missing() { # the packages of the list that are not installed
    # shellcheck disable=SC2207  # names
    local all=("${packages[@]}" $(clang_runtime) $(browser) $(pytorch))
    comm -23 <(printf '%s\n' "${all[@]}" | sort -u) \
        <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${all[@]}" 2>/dev/null | sed -n 's/ installed$//p' | sort -u)
}

if ! command -v apt-get >/dev/null; then
    echo "gpuwire: setup needs Debian or Ubuntu (no apt-get here); docs/building.md lists the libraries to install by hand" >&2
    exit 1
fi
# Some of what the tests use comes from PyPI, and lies outside the tree. The tests that use it are skipped when it is not
# there. from_pypi FOLDER MODULES PACKAGE...: to import the modules would take seconds, so they are only looked for.
home=~
from_pypi() {
    local folder=${XDG_CACHE_HOME:-$home/.cache}/gpuwire/$1 modules=$2
    shift 2
    # shellcheck disable=SC2086  # words
    "$folder/bin/python" -c 'import sys; from importlib.util import find_spec; all(map(find_spec, sys.argv[1:])) or 1 / 0' $modules \
        2>/dev/null && return 0
    echo "gpuwire: installing $* into $folder"
    { python3 -m venv "$folder" && "$folder/bin/pip" -q install "$@"; } ||
        echo "gpuwire: $* is not to be had: its tests will be skipped" >&2
}
# NVIDIA's own client for the Open Inference Protocol, Kubernetes' schemas (23 MB), and clients of OpenAI's API (90 MB).
all_from_pypi() {
    [[ " ${packages[*]} " = *" python3-venv "* ]] || return 0
    from_pypi tritonclient 'tritonclient.http tritonclient.grpc' 'tritonclient[http,grpc]==2.*'
    from_pypi openai 'openai litellm langchain_openai' 'openai==3.*' 'litellm==1.*' 'langchain-openai==1.*'
    from_pypi kubernetes kubernetes_validate 'kubernetes-validate==1.*'
    # What the tokenizers of language models are compared with (77 MB).
    from_pypi tokenizers 'tokenizers sentencepiece' 'tokenizers==0.*' 'sentencepiece==0.*'
}

mapfile -t want < <(missing)
if [ "${#want[@]}" -eq 0 ]; then
    all_from_pypi
    exit 0
fi

sudo=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "gpuwire: not root and no sudo; as root run: apt-get install ${want[*]}" >&2
        exit 1
    fi
    sudo=(sudo)
fi
echo "gpuwire: installing ${#want[@]} packages: ${want[*]}"
"${sudo[@]}" apt-get update -q
mapfile -t want < <(missing)
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${want[@]}"
# These packages start servers of their own, which the tests do not need.
for server in memcached nginx redis-server etcd; do
    if [ -d /run/systemd/system ] && [[ " ${want[*]} " = *" $server"* ]]; then
        "${sudo[@]}" systemctl disable -q --now "$server"
    fi
done
all_from_pypi
