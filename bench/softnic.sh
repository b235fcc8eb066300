#!/usr/bin/env bash
# The software NIC under unmodified perftest, UCX and Open MPI beside other ways between two processes of one host: UCX over
# shared memory and over TCP, Open MPI over TCP, iperf3 over UDP; and what its library costs open(). One line for each comparison: our figure, the peer's, the ratio, what was aimed
# at; medians of RUNS rounds (default 5), in each of which every program runs once, so that other work of the machine meets all
# of them. Rows whose programs are not installed (perftest, ucx-utils, iperf3, openmpi-bin with libopenmpi-dev) are skipped.
#     bench/softnic.sh [BUILD]        RUNS=5 SECONDS_EACH=2 ONLY="text of a row" CSV=FILE MACHINE=NAME (see csv.sh)
# In a bundle BUILD is "."; what only more than two CPUs show: ONLY=threads=4.
set -uo pipefail
cd "$(dirname "$0")/.."
. bench/csv.sh
tool=${1:-build}/bin/gpuwire
[[ $tool = /* ]] || tool=$PWD/$tool
[ -x "$tool" ] || { echo "bench/softnic.sh: no build there: $tool is missing (make builds in build; or name the folder)" >&2; exit 2; }
PATH=${tool%/*}:$PATH # a bundle has perftest beside it
runs=${RUNS:-5} seconds=${SECONDS_EACH:-2} only=${ONLY:-}
port=$((20000 + RANDOM % 10000))
work=$(mktemp -d)
export XDG_RUNTIME_DIR=$work/run LC_ALL=C UCX_LOG_LEVEL=error
mkdir -m 700 "$XDG_RUNTIME_DIR"
pids=()
trap '[ "${#pids[@]}" = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null; rm -rf "$work"' EXIT

# ---- one run of one program: each prints a single number, or nothing when it fails -----------------------------------

# both SERVER... :: CLIENT...: runs the client when the server has had time to listen; leaves the client's output.
both() {
    local server=() limit=$((seconds + 30))
    while [ "$1" != :: ]; do server+=("$1"); shift; done
    shift
    timeout -k 2 $limit "${server[@]}" >"$work/server" 2>&1 &
    pids=($!)
    sleep 0.7
    timeout -k 2 $limit "$@" >"$work/client" 2>&1
    kill "${pids[0]}" 2>/dev/null
    wait "${pids[0]}" 2>/dev/null
    pids=()
}

perftest() { # COLUMN NIC PROGRAM ARGS...
    local column=$1 nic=$2
    shift 2
    port=$((port + 1))
    export GPUWIRE_NIC=addr=127.0.0.1,$nic
    both "$tool" run -- "$@" -F -x 0 -p $port :: "$tool" run -- "$@" -F -x 0 -p $port 127.0.0.1
    awk -v c="$column" 'seen { print $c; exit } /#bytes/ { seen = 1 }' "$work/client"
}
over=() # what runs UCX: nothing, or us
ucx() { # COLUMN TRANSPORTS TEST SIZE MESSAGES
    port=$((port + 1))
    export UCX_TLS=$2,self
    both "${over[@]}" ucx_perftest -p $port :: "${over[@]}" ucx_perftest 127.0.0.1 -p $port -t "$3" -s "$4" -n "$5" -w 1000 -f
    awk -v c="$1" '/^ *[0-9.]+ +[0-9.]+ / { v = $c } END { if (v) print v }' "$work/client"
}
ucx_rc() { # COLUMN TEST SIZE MESSAGES
    export GPUWIRE_NIC=addr=127.0.0.1,mtu=4096
    over=("$tool" run --)
    ucx "$1" rc_verbs,ud_verbs "${@:2}"
    over=()
}
mpi() { # tcp|ours latency|bandwidth BYTES COUNT
    local how=(mpirun --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo)
    [ -x "$work/mpi_check" ] || return
    export GPUWIRE_NIC=addr=127.0.0.1,mtu=4096 UCX_TLS=rc_verbs,ud_verbs,self
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=false
    [ "$1" = ours ] && how=("$tool" run -- mpirun --mca pml ucx)
    timeout -k 2 $((seconds + 60)) "${how[@]}" --oversubscribe -n 2 "$work/mpi_check" "${@:2}" 2>/dev/null |
        sed -n '/^[0-9.]*$/p' | tail -n 1
}
opens() { "$@" "${tool%/*}/open_bench"; } # [COMMAND...]: nanoseconds
iperf() {
    port=$((port + 1))
    both iperf3 -s -1 -p $port :: iperf3 -c 127.0.0.1 -p $port -u -l 4096 -b 0 -w 2M -t "$seconds" -J
    sed -n '/"sum_received"/,/}/s/.*"bits_per_second":[[:space:]]*\([0-9.e+]*\).*/\1/p' "$work/client" |
        awk '{ print $1 / 1e9 }'
}
gbits() { awk '{ print $1 * 8 * 1048576 / 1e9 }'; } # of perftest's and UCX's MB/s, which are MiB/s
millions() { awk '{ print $1 / 1e6 }'; }


# A process with eight connected queue pairs that carried traffic and now has nothing to do: the server of ib_write_bw
# while its client is stopped. Leaves two samples: the per cent of a CPU over five seconds, and the resident MiB.
idle() { # NIC
    local server client t0 t1
    port=$((port + 1))
    export GPUWIRE_NIC=addr=127.0.0.1,$1
    "$tool" run -- ib_write_bw -F -x 0 -q 8 -D 60 -p $port >"$work/server" 2>&1 &
    pids=($!)
    sleep 0.7
    "$tool" run -- ib_write_bw -F -x 0 -q 8 -D 60 -p $port 127.0.0.1 >"$work/client" 2>&1 &
    pids+=($!)
    sleep 2
    server=$(pgrep -P "${pids[0]}") client=$(pgrep -P "${pids[1]}")
    [ -n "$server" ] && [ -n "$client" ] || return
    kill -STOP "$client"
    sleep 1
    t0=$(cat "/proc/$server"/task/*/schedstat | awk '{ n += $1 } END { print n }')
    sleep 5
    t1=$(cat "/proc/$server"/task/*/schedstat | awk '{ n += $1 } END { print n }')
    echo $((t1 - t0)) | awk '{ print $1 / 5e7 }' >>"$work/idle_cpu"
    sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$server/status" | awk '{ print $1 / 1024 }' >>"$work/idle_rss"
    kill -KILL "$client" "$server"
    wait "${pids[@]}" 2>/dev/null
    pids=()
}

# ---- the comparisons -------------------------------------------------------------------------------------------------

wire=,local=off # NIC settings: without it processes of one host use no packets

# NAME COMMAND...: what is measured in a round. perftest's columns: average bandwidth 4, Mmsg/s 5; latency's average 3.
perftest_bw() { perftest 4 "$@" | gbits; }
write_bw() { perftest 4 "$1" ib_write_bw -m 4096 -s "$2" -D "$seconds" | gbits; }
samples=(
    "host_bw        write_bw mtu=4096 1048576"
    "host_send_bw   perftest_bw mtu=4096 ib_send_bw -m 4096 -s 1048576 -D $seconds"
    "ring_send_bw   perftest_bw mtu=4096,local=ring ib_send_bw -m 4096 -s 1048576 -D $seconds"
    "host_lat       perftest 3 mtu=4096 ib_write_lat -s 8 -D $seconds"
    "host_rate      perftest 5 mtu=4096 ib_write_bw -s 64 -q 8 -D $seconds"
    "wire_plain     write_bw mtu=4096,gso=0$wire 65536"
    "wire_spin      write_bw mtu=4096$wire 65536"
    "wire_events    events mtu=4096$wire"
    "wire_threads   write_bw mtu=4096,threads=4$wire 65536"
    "wire_qps       perftest_gbits mtu=4096$wire"
    "wire_qps_threads perftest_gbits mtu=4096,threads=4$wire"
    "wire_rate      perftest 5 mtu=4096$wire ib_write_bw -s 64 -q 8 -D $seconds"
    "ucx_bw         ucx_bw"
    "ucx_lat_tcp    ucx 3 tcp tag_lat 8 50000"
    "ucx_lat_posix  ucx 3 posix tag_lat 8 300000"
    "ucx_rate       ucx_rate"
    "ucx_rc_bw      ucx_rc_bw"
    "ucx_rc_lat     ucx_rc 3 tag_lat 8 100000"
    "mpi_lat        mpi ours latency 8 20000"
    "mpi_lat_tcp    mpi tcp latency 8 20000"
    "mpi_bw         mpi ours bandwidth 1048576 6400"
    "mpi_bw_tcp     mpi tcp bandwidth 1048576 3200"
    "open_with      opens $tool run --"
    "open_plain     opens"
    "iperf          iperf"
    "idle           idle mtu=4096$wire"
)
perftest_gbits() { perftest 4 "$1" ib_write_bw -m 4096 -s 65536 -q 8 -D "$seconds" | gbits; }
# perftest has no events with WRITE; a SEND of as many bytes takes as many packets.
events() { perftest 4 "$1" ib_send_bw -m 4096 -s 65536 -n 60000 -e | gbits; }
ucx_bw() { ucx 6 posix,cma tag_bw 1048576 10000 | gbits; }
ucx_rc_bw() { ucx_rc 6 tag_bw 1048576 10000 | gbits; }
ucx_rate() { ucx 8 tcp tag_bw 64 400000 | millions; }

# OURS PEER UNIT AIM BETTER TEXT: the rows of the table. BETTER: + more is better, - less is.
rows=(
    "host_bw     ucx_bw        Gbit/s  0.9 + same host, ib_write_bw 1 MiB : UCX tag_bw, posix and cma"
    "host_send_bw ucx_bw       Gbit/s  -   + same host, ib_send_bw 1 MiB : UCX tag_bw, posix and cma"
    "host_send_bw ring_send_bw Gbit/s  -   + same host, ib_send_bw 1 MiB : the same through shared memory (local=ring)"
    "host_lat    ucx_lat_tcp   us      0.4 - same host, ib_write_lat 8 B : UCX tag_lat, tcp"
    "host_lat    ucx_lat_posix us      -   - same host, ib_write_lat 8 B : UCX tag_lat, posix"
    "host_rate   ucx_rate      Mmsg/s  6   + same host, ib_write_bw 64 B, 8 QPs : UCX tag_bw 64 B, tcp"
    "wire_plain  iperf         Gbit/s  0.9 + UDP wire, ib_write_bw 64 KiB, no offload : iperf3 -u -l 4096"
    "wire_spin   iperf         Gbit/s  2.5 + UDP wire, ib_write_bw 64 KiB, offload : iperf3 -u -l 4096"
    "wire_events iperf         Gbit/s  4   + UDP wire, ib_send_bw 64 KiB, offload, -e : iperf3 -u -l 4096"
    "wire_rate   ucx_rate      Mmsg/s  1   + UDP wire, ib_write_bw 64 B, 8 QPs : UCX tag_bw 64 B, tcp"
    "wire_threads wire_spin    Gbit/s  -   + UDP wire, ib_write_bw 64 KiB, offload, threads=4 : threads=1"
    "wire_qps_threads wire_qps Gbit/s  -   + UDP wire, ib_write_bw 64 KiB, 8 QPs, offload, threads=4 : threads=1"
    "ucx_rc_bw   ucx_bw        Gbit/s  0.8 + same host, UCX tag_bw 1 MiB, rc_verbs : UCX tag_bw, posix and cma"
    "ucx_rc_lat  ucx_lat_tcp   us      0.6 - same host, UCX tag_lat 8 B, rc_verbs : UCX tag_lat, tcp"
    "mpi_lat     mpi_lat_tcp   us      1   - same host, Open MPI 8 B, UCX with rc_verbs : Open MPI, tcp"
    "mpi_bw      mpi_bw_tcp    Gbit/s  1   + same host, Open MPI 1 MiB, UCX with rc_verbs : Open MPI, tcp"
    "open_with   open_plain    ns      1.05 - open of a file, by gpuwire run : alone"
    "idle_cpu    -             %       0.5 - idle, 8 QPs connected : per cent of a CPU"
    "idle_rss    -             MiB     32  - idle, 8 QPs connected : resident memory"
)

wanted() { # SAMPLE: does a row that is asked for need it?
    local row
    for row in "${rows[@]}"; do
        [[ $row == *"$only"* && " $row " == *" $1"[\ _]* ]] && return 0
    done
    return 1
}
median() { # SAMPLE: the middle one of its numbers, nothing if there is none
    [ -s "$work/$1" ] && sort -g "$work/$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
print_row() { # OURS PEER UNIT AIM BETTER TEXT...
    local ours peer value
    ours=$(median "$1") peer=$(median "$2")
    [ -n "$ours" ] || { echo "skipped: ${*:6}: no result of ours (it needs the packages perftest, ucx-utils, openmpi-bin and libopenmpi-dev)"; return; }
    value=$peer
    [ "$2" = - ] && peer=1 value=-
    [ -n "$peer" ] || { echo "skipped: ${*:6}: the peer gave no result (it comes with the packages ucx-utils, iperf3, openmpi-bin and libopenmpi-dev)"; return; }
    awk -v o="$ours" -v p="$peer" -v unit="$3" -v aim="$4" -v better="$5" -v alone="$2" -v text="${*:6}" 'BEGIN {
        r = o / p
        won = aim == "-" || (better == "+" ? r >= aim : r <= aim)
        if (alone == "-") line = sprintf("%10.3f %-7s", o, unit)
        else line = sprintf("%10.3f %-7s %10.3f %8.2fx", o, unit, p, r)
        printf "%-46s  %s%s\n", line, text, aim == "-" ? "" : sprintf("  [aim %s%s%s]%s", better == "+" ? ">= " : "<= ", aim, alone == "-" ? "" : "x", won ? "" : "  LOSES")
    }'
    csv_row "${*:6}" "$ours" "$3" "$5" "$value" "$4" "RUNS=$runs SECONDS_EACH=$seconds bench/softnic.sh"
}

command -v mpicc >/dev/null && mpicc -O2 -o "$work/mpi_check" tests/integration/mpi_check.c 2>"$work/mpicc"
echo "measured on: $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r), load" \
    "$(cut -d' ' -f1 /proc/loadavg) at the start; receive buffers up to $(($(sysctl -n net.core.rmem_max) / 1024)) KiB;" \
    "perftest $(dpkg-query -W -f '${Version}' perftest 2>/dev/null)," \
    "UCX $(dpkg-query -W -f '${Version}' ucx-utils 2>/dev/null), iperf3 $(dpkg-query -W -f '${Version}' iperf3 2>/dev/null)," \
    "Open MPI $(dpkg-query -W -f '${Version}' openmpi-bin 2>/dev/null)"
echo "medians of $runs rounds; same host: as processes find each other by default; UDP wire: local=off"
for ((round = 0; round < runs; round++)); do
    for sample in "${samples[@]}"; do
        read -r name command <<<"$sample"
        wanted "$name" || continue
        [ "$name" = idle ] && [ "$round" -gt 0 ] && continue # it lasts, and varies little
        $command >>"$work/$name"
    done
done
printf '%10s %-7s %10s %9s\n' ours unit peer ratio
for row in "${rows[@]}"; do
    # shellcheck disable=SC2086 # a row is words
    [[ $row == *"$only"* ]] && print_row $row
done
exit 0
