/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h: what GPUWIRE_NIC says about this process's NICs.
 *
 *     GPUWIRE_NIC=key=value,key=value,…[;key=value,…]
 *
 * A semicolon begins the next NIC: each has its own settings, and nothing of another's.
 *
 *     `addr=IP`           The address of the NIC, IPv4 or IPv6 (fe80::1%eth0 for a link-local one). The
 *                         default is the host's primary address, or 127.0.0.1 if it has none. Processes with
 *                         the same address share it.
 *     `poll=adaptive|busy`  How the NIC's own thread waits. The default is adaptive.
 *     `cpu=N`             Pins that thread to a CPU. By default it is not pinned.
 *     `threads=N`         N threads receive packets, 1 … 16: the one above, and others that check packets
 *                         before it. The default is 1.
 *     `hostile=0|1|2`     Placement as unkind as a NIC is allowed to be. With 2 WRITEs overtake WRITEs
 *                         besides. The default is 0.
 *     `seed=N`            Of everything random. The default is from the system.
 *     `mtu=N`             The largest path MTU offered: 256, 512, 1024, 2048, 4096. The default is what the
 *                         interface carries.
 *     `local=cma|ring|off`  How peers on the same host are reached at best. With cma (the default): by copies
 *                         between the processes' memory, and through shared memory where that is refused.
 *                         With ring: through shared memory. With off: over the wire like others.
 *     `gso=0|1`           Whether frames to one process of this host leave many to a message. The default is
 *                         1.
 *     `ecn=0|1`           Whether packets may be marked where a network is congested, and the rate of a queue
 *                         pair goes down when they were. The default is 1.
 *     `gpucopy=kernel|engine`  How copies of GPU memory that follow each other closely are made. With kernel
 *                         (the default) a kernel of the NIC's makes them, which takes a part of one of the
 *                         GPU's processors while it runs. With engine copy engines make all. That counts for
 *                         all NICs of the process.
 *     `memlock=0|1`       With 1 regions and queues count against the process's limit of locked memory, as in
 *                         the kernel. The default is 0.
 *     `gids=…` `pkeys=…`  What stands in the port's tables: config/tables.h.
 *     `ring=record|index`  What says how far a send queue was posted to: the doorbell record (the default),
 *                         or the index in the ring. With index, a ring that comes after a newer one ends its
 *                         queue pair.
 *     `atomics=masked|ib|none`  The mode of atomics of its queue pairs: masked ones too (the default), only
 *                         those of InfiniBand, or none.
 *     `gpurings=lost`     The NIC misses rings of GPUs' kernels, as if a bridge stopped them. It
 *                         looks at doorbells only when a thread of the process has posted.
 *     `gpudma=lost`       What the NIC writes to GPU memory that was registered by its address goes nowhere,
 *                         and reads there fail. That counts for all NICs of the process.
 *     `gpuorder=none`     No GPU counts as one that promises that completions find their data: with hostile,
 *                         data comes later. That counts for all NICs of the process.
 *     `pcap=FILE`         Everything that goes over the wire is written there. `%p` becomes the process's
 *                         number.
 *     `pcap_max=SIZE`     The capture ends when its file would become longer.
 *     `verbose=0|1|2`     With 0 nothing is said about wrong programs and peers. With 1 (the default) a few
 *                         lines about each object, with 2 all of them.
 *     `wire=udp|eth`      UDP sockets (the default), or whole Ethernet frames: config/eth_config.h has the
 *                         keys.
 *     `loss=P` … `tx.loss=P` … `rx.loss=P` …   An unkind network: config/faults.h.
 */
#ifndef SOFTNIC_CONFIG_CONFIG_H
#define SOFTNIC_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softnic/config/addr.h"
#include "softnic/config/eth_config.h"
#include "softnic/config/faults.h"
#include "softnic/config/tables.h"

enum { SN_MAX_NICS = 16, SN_MAX_THREADS = 16 };
enum { SN_CONFIG_WHY = 512, SN_CONFIG_PCAP = 1024, SN_CONFIG_TEXT = 4096, SN_PCAP_MIN = 65536 };

enum sn_poll { SN_POLL_ADAPTIVE, SN_POLL_BUSY };
enum sn_local_way { SN_LOCAL_CMA, SN_LOCAL_RING, SN_LOCAL_OFF };

struct sn_config {
    bool has_addr; /* else addr is unset and the default address is to be used */
    struct sn_addr addr;
    struct sn_eth_config eth;
    enum sn_poll poll;
    int cpu; /* -1: any */
    unsigned threads;
    bool hostile, overtake; /* 1 and more, 2 */
    bool has_seed;
    uint64_t seed;
    uint32_t mtu; /* 0: what the interface carries */
    bool no_gso, no_ecn, no_copy_kernel, memlock;
    struct sn_tables tables;
    bool rings_lost, dma_lost, disordered; /* of GPUs */
    bool by_index;                         /* ring=index */
    bool no_atomics, no_masked;
    enum sn_local_way local;
    struct sn_faults fault;
    char pcap[SN_CONFIG_PCAP]; /* "": no capture */
    uint64_t pcap_max;         /* bytes; 0: no limit */
    int verbose;
};

/*
 * Reads the settings of one NIC (NULL or "": all defaults) into *config. Returns 0, or -EINVAL and writes one
 * line to why that names the key and what is accepted. Any thread.
 */
int sn_config_parse(const char *text, struct sn_config *config, char why[SN_CONFIG_WHY]);

/*
 * How many NICs the whole of GPUWIRE_NIC speaks of (NULL or "": one), 1 … SN_MAX_NICS, or -EINVAL and why:
 * too many, or an error in any of them.
 */
int sn_config_count(const char *text, char why[SN_CONFIG_WHY]);

/* The settings of one of them, by its place; as sn_config_parse. -EINVAL also when there are fewer. */
int sn_config_nth(const char *text, unsigned index, struct sn_config *config, char why[SN_CONFIG_WHY]);

#endif
