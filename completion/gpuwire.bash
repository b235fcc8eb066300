# bash completion for gpuwire: made by scripts/man.py from docs/man/commands.toml
_gpuwire()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options words=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W 'demo serve generate router infer chat load check balance app info nic controller fleet perf cat hwcheck run help --help --version' -- "$cur")
        return
    fi
    [[ $command == generate && ${COMP_WORDS[2]} == load ]] && ((COMP_CWORD > 2)) && command=generate-load
    [[ $command == fleet && ${COMP_WORDS[2]} == demo ]] && ((COMP_CWORD > 2)) && command=fleet-demo
    [[ $command == fleet && ${COMP_WORDS[2]} == emulate ]] && ((COMP_CWORD > 2)) && command=fleet-emulate
    [[ $command == perf && ${COMP_WORDS[2]} == sock ]] && ((COMP_CWORD > 2)) && command=perf-sock
    if [[ $command == run ]]; then
        local i
        for ((i = 2; i < COMP_CWORD; i++)); do
            case ${COMP_WORDS[i]} in
                --nic | --fault) ((i++)) ;;
                --) ((i++)) && break ;;
                -*) ;;
                *) break ;;
            esac
        done
        if ((i < COMP_CWORD)) && declare -F _command_offset >/dev/null; then
            _command_offset "$i"
            return
        fi
    fi
    case "$command $prev" in
        'demo --exec')
            mapfile -t COMPREPLY < <(compgen -W 'auto cpu gpu' -- "$cur")
            return
            ;;
        'serve --config')
            return
            ;;
        'serve --models')
            mapfile -t COMPREPLY < <(compgen -d -- "$cur")
            return
            ;;
        'serve --model')
            return
            ;;
        'serve --exec')
            mapfile -t COMPREPLY < <(compgen -W 'auto cpu gpu' -- "$cur")
            return
            ;;
        'serve --gpu')
            return
            ;;
        'serve --device')
            mapfile -t COMPREPLY < <(compgen -W "softnic $(ls /sys/class/infiniband 2>/dev/null)" -- "$cur")
            return
            ;;
        'serve --listen')
            return
            ;;
        'serve --port')
            return
            ;;
        'serve --grpc')
            return
            ;;
        'serve --sessions')
            return
            ;;
        'serve --sessions-per-client')
            return
            ;;
        'serve --connections-per-client')
            return
            ;;
        'serve --trusted-proxy')
            return
            ;;
        'serve --host-name')
            return
            ;;
        'serve --idle')
            return
            ;;
        'serve --slots')
            return
            ;;
        'serve --threads')
            return
            ;;
        'serve --max-batch')
            return
            ;;
        'serve --batch-delay')
            return
            ;;
        'serve --resident')
            mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$cur")
            return
            ;;
        'serve --model-memory-limit')
            return
            ;;
        'serve --max-body')
            return
            ;;
        'serve --tls-cert')
            return
            ;;
        'serve --tls-key')
            return
            ;;
        'serve --token-file')
            return
            ;;
        'serve --balancer')
            return
            ;;
        'serve --balancer-address')
            return
            ;;
        'serve --metrics-port')
            return
            ;;
        'serve --fleet')
            return
            ;;
        'serve --fleet-name')
            return
            ;;
        'serve --fleet-address')
            return
            ;;
        'serve --fleet-folder')
            mapfile -t COMPREPLY < <(compgen -d -- "$cur")
            return
            ;;
        'serve --worker')
            return
            ;;
        'serve --gpu-pages')
            return
            ;;
        'serve --host-pages')
            return
            ;;
        'serve --load-delay')
            return
            ;;
        'serve --leases')
            return
            ;;
        'serve --drain-seconds')
            return
            ;;
        'serve --access-log')
            return
            ;;
        'serve --log-level')
            mapfile -t COMPREPLY < <(compgen -W 'error warning info debug' -- "$cur")
            return
            ;;
        'generate --name')
            return
            ;;
        'generate --exec')
            mapfile -t COMPREPLY < <(compgen -W 'auto cpu gpu' -- "$cur")
            return
            ;;
        'generate --gpu')
            return
            ;;
        'generate --threads')
            return
            ;;
        'generate --lanes')
            return
            ;;
        'generate --context')
            return
            ;;
        'generate --max-tokens')
            return
            ;;
        'generate --kv-memory')
            return
            ;;
        'generate --kv')
            mapfile -t COMPREPLY < <(compgen -W 'fp32 fp16 bf16' -- "$cur")
            return
            ;;
        'generate --prompt-rows')
            return
            ;;
        'generate --sessions')
            return
            ;;
        'generate --sessions-per-client')
            return
            ;;
        'generate --slots')
            return
            ;;
        'generate --device')
            mapfile -t COMPREPLY < <(compgen -W "softnic $(ls /sys/class/infiniband 2>/dev/null)" -- "$cur")
            return
            ;;
        'generate --listen')
            return
            ;;
        'generate --port')
            return
            ;;
        'generate --connections-per-client')
            return
            ;;
        'generate --trusted-proxy')
            return
            ;;
        'generate --host-name')
            return
            ;;
        'generate --max-body')
            return
            ;;
        'generate --tls-cert')
            return
            ;;
        'generate --tls-key')
            return
            ;;
        'generate --token-file')
            return
            ;;
        'generate --metrics-port')
            return
            ;;
        'generate --balancer')
            return
            ;;
        'generate --balancer-address')
            return
            ;;
        'generate --drain-seconds')
            return
            ;;
        'generate --access-log')
            return
            ;;
        'generate --log-level')
            mapfile -t COMPREPLY < <(compgen -W 'error warning info debug' -- "$cur")
            return
            ;;
        'generate-load --model')
            return
            ;;
        'generate-load --streams')
            return
            ;;
        'generate-load --rate')
            return
            ;;
        'generate-load --prompt')
            return
            ;;
        'generate-load --prompt-spread')
            return
            ;;
        'generate-load --shared')
            return
            ;;
        'generate-load --tokens')
            return
            ;;
        'generate-load --seconds')
            return
            ;;
        'generate-load --warmup')
            return
            ;;
        'generate-load --seed')
            return
            ;;
        'generate-load --token-file')
            return
            ;;
        'generate-load --ca-file')
            return
            ;;
        'router --controller')
            return
            ;;
        'router --etcd')
            return
            ;;
        'router --fleet')
            return
            ;;
        'router --fleet-token-file')
            return
            ;;
        'router --name')
            return
            ;;
        'router --deadline')
            return
            ;;
        'router --memory')
            return
            ;;
        'router --listen')
            return
            ;;
        'router --port')
            return
            ;;
        'router --grpc')
            return
            ;;
        'router --connections-per-client')
            return
            ;;
        'router --trusted-proxy')
            return
            ;;
        'router --host-name')
            return
            ;;
        'router --max-body')
            return
            ;;
        'router --tls-cert')
            return
            ;;
        'router --tls-key')
            return
            ;;
        'router --token-file')
            return
            ;;
        'router --metrics-port')
            return
            ;;
        'router --drain-seconds')
            return
            ;;
        'router --access-log')
            return
            ;;
        'router --log-level')
            mapfile -t COMPREPLY < <(compgen -W 'error warning info debug' -- "$cur")
            return
            ;;
        'infer --server')
            return
            ;;
        'infer --fleet')
            return
            ;;
        'infer --model-version')
            return
            ;;
        'infer --priority')
            return
            ;;
        'infer --deadline')
            return
            ;;
        'infer --slots')
            return
            ;;
        'chat --token-file')
            return
            ;;
        'chat --ca-file')
            return
            ;;
        'load --server')
            return
            ;;
        'load --fleet')
            return
            ;;
        'load --model-version')
            return
            ;;
        'load --clients')
            return
            ;;
        'load --slots')
            return
            ;;
        'load --requests')
            return
            ;;
        'load --concurrency')
            return
            ;;
        'load --rate')
            return
            ;;
        'load --arrivals')
            mapfile -t COMPREPLY < <(compgen -W 'poisson constant' -- "$cur")
            return
            ;;
        'load --seed')
            return
            ;;
        'load --window')
            return
            ;;
        'load --windows')
            return
            ;;
        'load --stability')
            return
            ;;
        'load --warmup')
            return
            ;;
        'load --rows')
            return
            ;;
        'load --priority')
            return
            ;;
        'load --deadline')
            return
            ;;
        'check --exec')
            mapfile -t COMPREPLY < <(compgen -W 'cpu gpu' -- "$cur")
            return
            ;;
        'balance --api')
            return
            ;;
        'balance --scheduler')
            mapfile -t COMPREPLY < <(compgen -W 'rr wrr lc wlc sh mh p2c lb' -- "$cur")
            return
            ;;
        'balance --forward')
            mapfile -t COMPREPLY < <(compgen -W 'DR TUN GUE NAT' -- "$cur")
            return
            ;;
        'balance --name')
            return
            ;;
        'balance --weight')
            return
            ;;
        'balance --limit')
            return
            ;;
        'balance --interval')
            return
            ;;
        'info --device')
            mapfile -t COMPREPLY < <(compgen -W "softnic $(ls /sys/class/infiniband 2>/dev/null)" -- "$cur")
            return
            ;;
        'info --exec')
            mapfile -t COMPREPLY < <(compgen -W 'auto cpu gpu' -- "$cur")
            return
            ;;
        'nic --pid')
            mapfile -t COMPREPLY < <(compgen -W "$(ps -u "$(id -u)" -o pid= 2>/dev/null)" -- "$cur")
            return
            ;;
        'nic --qp')
            return
            ;;
        'nic --watch')
            return
            ;;
        'nic --fault')
            mapfile -t COMPREPLY < <(compgen -W 'none loss= dup= reorder= corrupt= delay= jitter= rate= down= seed= tx. rx.' -- "${cur##*,}")
            [[ $cur == *,* ]] && COMPREPLY=("${COMPREPLY[@]/#/${cur%,*},}")
            compopt -o nospace 2>/dev/null
            return
            ;;
        'nic --event')
            mapfile -t COMPREPLY < <(compgen -W 'device-fatal port-err port-active' -- "$cur")
            return
            ;;
        'controller --etcd')
            return
            ;;
        'controller --listen')
            return
            ;;
        'controller --address')
            return
            ;;
        'controller --fleet')
            return
            ;;
        'controller --name')
            return
            ;;
        'controller --http')
            return
            ;;
        'controller --telemetry')
            return
            ;;
        'controller --device')
            return
            ;;
        'controller --max-workers')
            return
            ;;
        'controller --max-models')
            return
            ;;
        'controller --max-places')
            return
            ;;
        'fleet --controller')
            return
            ;;
        'fleet --fleet')
            return
            ;;
        'fleet-demo --deadline')
            return
            ;;
        'fleet-demo --rate')
            return
            ;;
        'fleet-emulate --controller')
            return
            ;;
        'fleet-emulate --etcd')
            return
            ;;
        'fleet-emulate --workers')
            return
            ;;
        'fleet-emulate --models')
            return
            ;;
        'fleet-emulate --gpu-pages')
            return
            ;;
        'fleet-emulate --host-pages')
            return
            ;;
        'fleet-emulate --slots')
            return
            ;;
        'fleet-emulate --leases')
            return
            ;;
        'fleet-emulate --slow')
            return
            ;;
        'fleet-emulate --seed')
            return
            ;;
        'fleet-emulate --threads')
            return
            ;;
        'fleet-emulate --fleet-name')
            return
            ;;
        'fleet-emulate --name')
            return
            ;;
        'fleet-emulate --host')
            return
            ;;
        'fleet-emulate --drain-seconds')
            return
            ;;
        'perf --exec')
            mapfile -t COMPREPLY < <(compgen -W 'auto cpu gpu' -- "$cur")
            return
            ;;
        'perf --gpu')
            return
            ;;
        'perf -o' | 'perf --op')
            mapfile -t COMPREPLY < <(compgen -W 'put put_imm get send signal datagram fetch_add cmp_swap masked_add masked_swap' -- "$cur")
            return
            ;;
        'perf -s' | 'perf --size')
            return
            ;;
        'perf -n' | 'perf --iters')
            return
            ;;
        'perf -D' | 'perf --duration')
            return
            ;;
        'perf -q' | 'perf --qp')
            return
            ;;
        'perf -t' | 'perf --tx-depth')
            return
            ;;
        'perf -l' | 'perf --post_list')
            return
            ;;
        'perf -Q' | 'perf --cq-mod')
            return
            ;;
        'perf --blocks')
            return
            ;;
        'perf --threads')
            return
            ;;
        'perf --warps')
            return
            ;;
        'perf --by')
            mapfile -t COMPREPLY < <(compgen -W 'thread warp block' -- "$cur")
            return
            ;;
        'perf --rate')
            return
            ;;
        'perf -I' | 'perf --inline_size')
            return
            ;;
        'perf --buffers')
            mapfile -t COMPREPLY < <(compgen -W 'auto host mapped gpu' -- "$cur")
            return
            ;;
        'perf --queues')
            mapfile -t COMPREPLY < <(compgen -W 'host gpu' -- "$cur")
            return
            ;;
        'perf -d' | 'perf --ib-dev')
            mapfile -t COMPREPLY < <(compgen -W "softnic $(ls /sys/class/infiniband 2>/dev/null)" -- "$cur")
            return
            ;;
        'perf -p' | 'perf --port')
            return
            ;;
        'perf -m' | 'perf --mtu')
            mapfile -t COMPREPLY < <(compgen -W '256 512 1024 2048 4096' -- "$cur")
            return
            ;;
        'perf -u' | 'perf --qp-timeout')
            return
            ;;
        'perf -x' | 'perf --gid-index')
            return
            ;;
        'perf -i' | 'perf --ib-port')
            return
            ;;
        'perf -c')
            mapfile -t COMPREPLY < <(compgen -W 'RC' -- "$cur")
            return
            ;;
        'perf-sock --exec')
            mapfile -t COMPREPLY < <(compgen -W 'auto cpu gpu' -- "$cur")
            return
            ;;
        'perf-sock --gpu')
            return
            ;;
        'perf-sock -s' | 'perf-sock --size')
            return
            ;;
        'perf-sock -n' | 'perf-sock --iters')
            return
            ;;
        'perf-sock -q' | 'perf-sock --connections')
            return
            ;;
        'perf-sock --threads')
            return
            ;;
        'perf-sock -B' | 'perf-sock --buffer')
            return
            ;;
        'perf-sock -d' | 'perf-sock --ib-dev')
            mapfile -t COMPREPLY < <(compgen -W "softnic $(ls /sys/class/infiniband 2>/dev/null)" -- "$cur")
            return
            ;;
        'perf-sock -p' | 'perf-sock --port')
            return
            ;;
        'cat --exec')
            mapfile -t COMPREPLY < <(compgen -W 'auto cpu gpu' -- "$cur")
            return
            ;;
        'cat --gpu')
            return
            ;;
        'cat -d' | 'cat --ib-dev')
            mapfile -t COMPREPLY < <(compgen -W "softnic $(ls /sys/class/infiniband 2>/dev/null)" -- "$cur")
            return
            ;;
        'cat -w' | 'cat --wait')
            return
            ;;
        'hwcheck --address')
            return
            ;;
        'hwcheck --ssh')
            return
            ;;
        'hwcheck -d' | 'hwcheck --ib-dev')
            mapfile -t COMPREPLY < <(compgen -W "softnic $(ls /sys/class/infiniband 2>/dev/null)" -- "$cur")
            return
            ;;
        'hwcheck --remote-dev')
            return
            ;;
        'hwcheck -p' | 'hwcheck --port')
            return
            ;;
        'hwcheck --only')
            mapfile -t COMPREPLY < <(compgen -W 'conformance figure' -- "$cur")
            return
            ;;
        'run --nic')
            mapfile -t COMPREPLY < <(compgen -W 'addr= mtu= local= poll= cpu= threads= gso= ecn= gpucopy= ring= atomics= gpurings= gpudma= gpuorder= wire= if= bind= peer= mac= gw= pcap= pcap_max= verbose= hostile= seed=' -- "${cur##*,}")
            [[ $cur == *,* ]] && COMPREPLY=("${COMPREPLY[@]/#/${cur%,*},}")
            compopt -o nospace 2>/dev/null
            return
            ;;
        'run --fault')
            mapfile -t COMPREPLY < <(compgen -W 'none loss= dup= reorder= corrupt= delay= jitter= rate= down= seed= tx. rx.' -- "${cur##*,}")
            [[ $cur == *,* ]] && COMPREPLY=("${COMPREPLY[@]/#/${cur%,*},}")
            compopt -o nospace 2>/dev/null
            return
            ;;
    esac
    case $command in
        demo)
            options='--exec --picture --out -h --help'
            ;;
        serve)
            options='--config --models --model --exec --gpu --device --listen --port --grpc --sessions --sessions-per-client --connections-per-client --trusted-proxy --host-name --idle --slots --threads --max-batch --batch-delay --resident --model-memory-limit --max-body --tls-cert --tls-key --token-file --open-health --balancer --balancer-address --balancer-token-file --metrics-port --fleet --fleet-name --fleet-address --fleet-folder --worker --gpu-pages --host-pages --load-delay --leases --model-control --watch --drain-seconds --access-log --log-level -h --help'
            ;;
        generate)
            options='--name --exec --gpu --threads --lanes --context --max-tokens --kv-memory --kv --prompt-rows --sessions --sessions-per-client --slots --device --listen --port --connections-per-client --trusted-proxy --host-name --max-body --tls-cert --tls-key --token-file --open-health --metrics-port --balancer --balancer-address --balancer-token-file --drain-seconds --access-log --log-level -h --help'
            ;;
        generate-load)
            options='--model --streams --rate --prompt --prompt-spread --shared --tokens --seconds --warmup --seed --json --token-file --ca-file -h --help'
            ;;
        router)
            options='--controller --etcd --fleet --fleet-token-file --name --deadline --memory --listen --port --grpc --connections-per-client --trusted-proxy --host-name --max-body --tls-cert --tls-key --token-file --open-health --metrics-port --drain-seconds --access-log --log-level -h --help'
            ;;
        infer)
            options='--server --fleet --token-file --ca-file --model-version --input --output --priority --deadline --image --out --slots --stats -h --help'
            words='superresolution identity'
            ;;
        chat)
            options='--model --system --temperature --max-tokens --token-file --ca-file -h --help'
            ;;
        load)
            options='--server --fleet --token-file --ca-file --model-version --clients --slots --requests --concurrency --rate --arrivals --seed --window --windows --stability --warmup --rows --priority --deadline --input --verify-echo --csv --json --plot -h --help'
            words='superresolution identity'
            ;;
        check)
            options='--exec --batch -h --help'
            ;;
        balance)
            options='--config --keep --api --token-file --ca-file --scheduler --forward --name --weight --limit --now --json --interval --once -h --help'
            ((COMP_CWORD == 2)) && words='check list top save reload add weight drain up remove demo'
            ;;
        app)
            options='-h --help'
            ((COMP_CWORD == 2)) && words='matmul faceverify mapreduce'
            ;;
        info)
            options='--device --exec -h --help'
            ;;
        nic)
            options='--pid --qp --json --watch --fault --event -h --help'
            ;;
        controller)
            options='--etcd --standalone --listen --address --fleet --name --models --token-file --http --http-token-file --audit --dry-run --telemetry --device --max-workers --max-models --max-places -h --help'
            ;;
        fleet)
            options='--controller --fleet --token-file --once --json -h --help'
            ((COMP_CWORD == 2)) && words='drain undrain plan emulate demo'
            ;;
        fleet-demo)
            options='--deadline --rate --quick -h --help'
            ;;
        fleet-emulate)
            options='--controller --etcd --workers --models --profile --gpu-pages --host-pages --slots --leases --cold --slow --seed --threads --fleet-name --name --host --token-file --drain-seconds --quiet -h --help'
            ;;
        perf)
            options='--loopback --exec --gpu -o --op -s --size -a --all -n --iters -D --duration -q --qp -t --tx-depth -l --post_list -Q --cq-mod --blocks --threads --warps --by --shared --rate -b --bidirectional -I --inline_size -e --events --buffers --queues --verify -d --ib-dev -p --port -m --mtu -u --qp-timeout -x --gid-index -i --ib-port --csv --json -F -R -N -z --report_gbits -c -h --help'
            ((COMP_CWORD == 2)) && words='bw lat msgrate post sock'
            ;;
        perf-sock)
            options='--loopback --tcp --rdma --exec --gpu -s --size -a --all -n --iters -q --connections --threads -B --buffer --busy --verify -d --ib-dev -p --port --csv --json -h --help'
            ((COMP_CWORD == 3)) && words='lat bw connects'
            ;;
        cat)
            options='-l --listen -U --unix --tcp --rdma --exec --gpu -d --ib-dev -w --wait -v --verbose -h --help'
            ;;
        hwcheck)
            options='--address --ssh --remote -d --ib-dev --remote-dev -p --port -o --out --quick --only --facts -h --help'
            ;;
        run)
            options='--nic --fault -h --help'
            [[ $cur == -* ]] || mapfile -t COMPREPLY < <(compgen -c -- "$cur")
            ;;
        help) words='demo serve generate router infer chat load check balance app info nic controller fleet perf cat hwcheck run' ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
    elif [[ -n $words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    fi
}
complete -o default -F _gpuwire gpuwire
