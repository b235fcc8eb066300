/* SPDX-License-Identifier: Apache-2.0 */
/* Packets from DPDK's devices: each core has a queue of each device, and takes bursts from receiving to
 * sending. */
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "src/balance/burst.h"
#include "src/balance/core.h"
#include "src/balance/devices.h"
#include "src/balance/keep.h"
#include "src/balance/link.h"
#include "src/balance/run.h"
#include "src/balance/step.h"

enum {
    DESCRIPTORS = 1024,
    HANDED = 4096,   /* packets on their way to another core */
    EMPTY_POLLS = 4, /* of a device that the kernel moves packets for, before a pause */
    PAUSE_NS = 20000,
    MAX_ARGS = 32,
    SPARE = 256, /* after a packet: drivers count the kernel's headers with the frame */
    L2_LEN = 18, /* Ethernet's header, with a tag */
};

struct plane {
    struct bal *bal;
    uint32_t devices, cores;
    uint32_t mtu[BAL_PORTS], buffer;  /* bytes: of IP on each device, and of a packet's buffer */
    uint16_t port[BAL_PORTS];         /* DPDK's number of each device */
    uint8_t device[RTE_MAX_ETHPORTS]; /* and back */
    bool software, files[BAL_PORTS], any_size[BAL_PORTS];
    struct rte_mempool *pool;
    struct rte_ring *handed[BAL_CORES];
    char *error;
    size_t size;
};

__attribute__((format(printf, 3, 4))) static int run_refuse(struct plane *d, int err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(d->error, d->size, format, args);
    va_end(args);
    return err;
}

bool gw_balance_has_dpdk(void)
{
    return true;
}

/* ---- DPDK itself ---- */

static bool one_queue; /* of each device */

/* DPDK's af_packet puts its sockets into a group (PACKET_FANOUT), and has no options for that. This process'
 * setsockopt, which DPDK's drivers call, too, changes two things:
 * - A device with one queue has no group. The kernel would hash each packet to choose among one socket.
 * - The kernel puts no fragments together. DPDK would lose the whole datagram: its buffers are too small. */
__attribute__((visibility("default"))) int setsockopt(int fd, int level, int name, const void *value,
                                                      socklen_t size)
{
    uint32_t fanout;
    if (level == SOL_PACKET && name == PACKET_FANOUT && size == sizeof(fanout)) {
        if (one_queue) return 0;
        memcpy(&fanout, value, sizeof(fanout));
        fanout &= ~((uint32_t)PACKET_FANOUT_FLAG_DEFRAG << 16);
        value = &fanout;
    }
    return (int)syscall(SYS_setsockopt, fd, level, name, value, size);
}

static int cores_text(struct plane *d, const struct bal_run *how, char *text, size_t size)
{
    cpu_set_t set;
    uint32_t n = 0;
    size_t at = 0;
    if (how->cores) {
        if (strspn(how->cores, "0123456789,-") != strlen(how->cores) || strlen(how->cores) >= size)
            return run_refuse(d, -EINVAL, "'%s' is no list of processors, such as 2,4-7", how->cores);
        strcpy(text, how->cores);
        return 0;
    }
    if (sched_getaffinity(0, sizeof(set), &set))
        return run_refuse(d, -errno, "no processors: %s", strerror(errno));
    for (int cpu = 0; cpu < CPU_SETSIZE && n < d->cores; cpu++)
        if (CPU_ISSET(cpu, &set)) at += (size_t)snprintf(text + at, size - at, "%s%d", n++ ? "," : "", cpu);
    if (n < d->cores)
        return run_refuse(d, -EINVAL, "%u cores were asked for, and this process may use %u: ask for fewer",
                          d->cores, n);
    return 0;
}

static int start_dpdk(struct plane *d, const struct bal_run *how, bool pci)
{
    char cores[512], memory[16], *argv[MAX_ARGS];
    int argc = 0;
    int err = cores_text(d, how, cores, sizeof(cores));
    if (err) return err;
    /* a device's buffers, and half as much again: the pool's own, and rings */
    uint32_t need = 64 + (uint32_t)((uint64_t)6 * DESCRIPTORS * d->buffer * d->devices * d->cores >> 20) +
                    34 * d->devices * d->cores;
    snprintf(memory, sizeof(memory), "%u", how->memory_mb ? how->memory_mb : need);
    argv[argc++] = "gpuwire";
    argv[argc++] = "-l";
    argv[argc++] = cores;
    argv[argc++] = how->huge_pages ? "--in-memory" : "--no-shconf"; /* either way, no files */
    argv[argc++] = "--no-telemetry";
    argv[argc++] = "--log-level=*:4";
    if (!pci) argv[argc++] = "--no-pci";
    if (!how->huge_pages) {
        argv[argc++] = "--no-huge";
        argv[argc++] = "-m";
        argv[argc++] = memory;
        fprintf(stderr, "gpuwire: packets lie in ordinary memory: with huge pages the balancer is faster\n");
    }
    argv[argc] = NULL;
    if (rte_eal_init(argc, argv) >= 0) return 0;
    if (rte_errno == EALREADY)
        return run_refuse(d, -EBUSY, "DPDK runs in this process already: start another one");
    if (how->huge_pages)
        return run_refuse(
            d, -ENOMEM,
            "DPDK does not start with huge pages: set some aside in /proc/sys/vm/nr_hugepages, or "
            "do without");
    return run_refuse(d, -EINVAL, "DPDK does not start on processors %s: %s", cores, rte_strerror(rte_errno));
}

/* ---- devices ---- */

static int parse_device(struct plane *d, uint32_t index, const char *text, struct bal_device *v)
{
    const struct bal_device_wish wish = {index, d->cores, d->mtu[index]};
    return bal_device_parse(text, &wish, v, d->error, d->size);
}

/* The kernel's interface takes packets of that size. Its own MTU is raised if need be. */
static int raise_mtu(struct plane *d, const char *name, uint32_t mtu, const char *text)
{
    struct ifreq r = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
    snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
    if (fd < 0 || ioctl(fd, SIOCGIFMTU, &r)) err = -errno;
    if (!err && (uint32_t)r.ifr_mtu < mtu) {
        r.ifr_mtu = (int)mtu;
        if (ioctl(fd, SIOCSIFMTU, &r)) err = -errno;
    }
    if (fd >= 0) close(fd);
    if (!err) return 0;
    return run_refuse(
        d, err, "%s: its MTU cannot be %u: %s; give it that with ip link set %s mtu %u, or set a smaller mtu",
        text, mtu, strerror(-err), name, mtu);
}

static int check_device(struct plane *d, const struct bal_device *v, const char *text, uint32_t mtu)
{
    if (*v->kernel && !if_nametoindex(v->kernel))
        return run_refuse(d, -ENODEV, "%s: there is no network interface %s", text, v->kernel);
    if (!v->needs_raw) return 0;
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0)
        return run_refuse(d, -EPERM, "%s: raw packets are not permitted: run as root, or with CAP_NET_RAW",
                          text);
    close(fd);
    return *v->kernel ? raise_mtu(d, v->kernel, mtu, text) : 0;
}

static int open_device(struct plane *d, uint32_t index, const char *text)
{
    struct bal_device v;
    int err = parse_device(d, index, text, &v);
    if (!err) err = check_device(d, &v, text, d->mtu[index]);
    if (err) return err;
    d->software |= v.software;
    d->files[index] = v.file;
    d->any_size[index] = v.any_size;
    one_queue = d->cores == 1;
    err = rte_eal_hotplug_add(v.bus, v.name, v.args);
    if (err)
        return run_refuse(d, err,
                          "%s: DPDK does not open it: %s (is its driver there, as librte-net-af-packet?)",
                          text, rte_strerror(-err));
    if (rte_eth_dev_get_port_by_name(v.name, &d->port[index]))
        return run_refuse(d, -ENODEV, "%s: it is no network device of DPDK's", text);
    d->device[d->port[index]] = (uint8_t)index;
    return 0;
}

static int check_mtu(struct plane *d, const struct rte_eth_dev_info *info, uint32_t mtu, const char *text)
{
    uint32_t most = info->max_rx_pktlen > L2_LEN ? info->max_rx_pktlen - L2_LEN : 0;
    if (info->max_mtu < most) most = info->max_mtu;
    if (mtu <= most || mtu <= RTE_ETHER_MTU) return 0;
    return run_refuse(
        d, -EINVAL,
        "%s: its driver takes packets of %u bytes at most, and mtu says %u: set a smaller one, or use "
        "another driver",
        text, most, mtu);
}

static int set_up_queues(struct plane *d, uint32_t index, const char *text)
{
    uint16_t port = d->port[index], rx = DESCRIPTORS, tx = DESCRIPTORS;
    struct rte_eth_conf conf = {0};
    struct rte_eth_dev_info info;
    int err = rte_eth_dev_info_get(port, &info);
    if (err) return run_refuse(d, err, "%s: it does not say what it can do: %s", text, rte_strerror(-err));
    if (info.max_rx_queues < d->cores || info.max_tx_queues < d->cores)
        return run_refuse(d, -EINVAL, "%s has %u queues, and each of %u cores needs one: use fewer cores",
                          text, info.max_rx_queues, d->cores);
    err = d->any_size[index] ? 0 : check_mtu(d, &info, d->mtu[index], text);
    if (err) return err;
    conf.rxmode.mtu = d->any_size[index] ? 0 : d->mtu[index];
    uint64_t hash = (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP) & info.flow_type_rss_offloads;
    if (d->cores > 1 && hash) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = hash;
    }
    err = rte_eth_dev_configure(port, (uint16_t)d->cores, (uint16_t)d->cores, &conf);
    if (!err) err = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx);
    for (uint16_t q = 0; q < d->cores && !err; q++) {
        err = rte_eth_rx_queue_setup(port, q, rx, (unsigned)rte_eth_dev_socket_id(port), NULL, d->pool);
        if (!err) err = rte_eth_tx_queue_setup(port, q, tx, (unsigned)rte_eth_dev_socket_id(port), NULL);
    }
    if (!err && d->mtu[index] > RTE_ETHER_MTU && !d->any_size[index])
        err = rte_eth_dev_set_mtu(port, (uint16_t)d->mtu[index]);
    if (!err) err = rte_eth_dev_start(port);
    if (err) return run_refuse(d, err, "%s: its queues do not start: %s", text, rte_strerror(-err));
    rte_eth_promiscuous_enable(port); /* where it cannot, packets for the port's own MAC still come */
    struct rte_ether_addr mac;
    if (!rte_eth_macaddr_get(port, &mac)) bal_set_port_mac(d->bal, index, mac.addr_bytes, d->files[index]);
    return 0;
}

static int make_pools(struct plane *d, uint32_t more)
{
    unsigned packets = 4 * DESCRIPTORS * d->devices * d->cores + HANDED * (d->cores - 1) + 1024 + more;
    d->pool = rte_pktmbuf_pool_create("packets", packets, 256, 0, (uint16_t)d->buffer, SOCKET_ID_ANY);
    if (!d->pool && rte_errno == EINVAL)
        return run_refuse(d, -ENOPKG,
                          "DPDK's driver of memory pools is not there: Debian's librte-mempool-ring has it");
    if (!d->pool) return run_refuse(d, -ENOMEM, "no memory for %u packets", packets);
    for (uint32_t i = 0; i < d->cores; i++) {
        char name[32];
        snprintf(name, sizeof(name), "handed%u", i);
        d->handed[i] = rte_ring_create(name, HANDED, SOCKET_ID_ANY, RING_F_SC_DEQ);
        if (!d->handed[i]) return run_refuse(d, -ENOMEM, "no memory for the cores' queues");
    }
    return 0;
}

/* ---- one core ---- */

struct out {
    struct rte_mbuf *mbuf[BAL_BURST];
    uint16_t n;
};

struct run {
    struct plane *plane;
    struct bal_core *core;
    uint16_t queue;
    struct out out[BAL_PORTS];
};

static uint64_t run_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void run_flush(struct run *r, uint32_t device)
{
    struct out *o = &r->out[device];
    if (!o->n) return;
    uint16_t sent = rte_eth_tx_burst(r->plane->port[device], r->queue, o->mbuf, o->n);
    if (sent < o->n) {
        bal_count(&r->core->counters->drop[BAL_DROP_NO_ROOM], (uint64_t)(o->n - sent));
        rte_pktmbuf_free_bulk(o->mbuf + sent, (unsigned)(o->n - sent));
    }
    o->n = 0;
}

static void send_from(struct run *r, uint32_t device, struct rte_mbuf *m)
{
    if (device >= r->plane->devices) { /* a port without a device */
        bal_count(&r->core->counters->drop[BAL_DROP_NO_ROOM], 1);
        rte_pktmbuf_free(m);
        return;
    }
    struct out *o = &r->out[device];
    o->mbuf[o->n++] = m;
    if (o->n == BAL_BURST) run_flush(r, device);
}

static void run_settle(struct run *r, struct rte_mbuf *m, const struct bal_packet *p)
{
    if (p->verdict == BAL_PASS) {
        m->hash.usr = p->hops;
        if (!rte_ring_enqueue(r->plane->handed[p->core], m)) return;
        bal_count(&r->core->counters->drop[BAL_DROP_NO_ROOM], 1);
    }
    if (p->verdict != BAL_SEND) {
        rte_pktmbuf_free(m);
        return;
    }
    m->data_off = (uint16_t)(p->data - (uint8_t *)m->buf_addr);
    m->data_len = (uint16_t)p->len;
    m->pkt_len = p->len;
    m->ol_flags = 0;
    send_from(r, p->port, m);
}

static void run_burst(struct run *r, struct rte_mbuf **mbuf, uint16_t n, bool handed)
{
    struct bal_packet packet[BAL_BURST];
    uint16_t whole = 0;
    for (uint16_t i = 0; i < n; i++) {
        struct rte_mbuf *m = mbuf[i];
        if (m->nb_segs != 1) { /* larger than a buffer, which has room for the link's MTU */
            bal_count(&r->core->counters->drop[BAL_DROP_TOO_BIG], 1);
            rte_pktmbuf_free(m);
            continue;
        }
        mbuf[whole] = m;
        packet[whole++] = (struct bal_packet){.data = rte_pktmbuf_mtod(m, uint8_t *),
                                              .len = m->data_len,
                                              .headroom = m->data_off,
                                              .port = r->plane->device[m->port],
                                              .hops = handed ? (uint8_t)m->hash.usr : 0};
    }
    gw_balance_burst(r->core, packet, whole, run_now());
    for (uint16_t i = 0; i < whole; i++) run_settle(r, mbuf[i], &packet[i]);
}

static void send_own(struct run *r)
{
    struct bal_frame frame[BAL_BURST];
    size_t n = bal_core_frames(r->core, frame, BAL_BURST);
    for (size_t i = 0; i < n; i++) {
        struct rte_mbuf *m = rte_pktmbuf_alloc(r->plane->pool);
        if (!m) return;
        memcpy(rte_pktmbuf_append(m, frame[i].len), frame[i].data, frame[i].len);
        send_from(r, frame[i].port, m);
    }
}

static uint32_t poll_once(struct run *r)
{
    struct rte_mbuf *mbuf[BAL_BURST];
    uint32_t got = 0;
    for (uint32_t i = 0; i < r->plane->devices; i++) {
        uint16_t n = rte_eth_rx_burst(r->plane->port[i], r->queue, mbuf, BAL_BURST);
        if (n) run_burst(r, mbuf, n, false);
        got += n;
    }
    if (r->plane->cores > 1) {
        unsigned n = rte_ring_dequeue_burst(r->plane->handed[r->queue], (void **)mbuf, BAL_BURST, NULL);
        if (n) run_burst(r, mbuf, (uint16_t)n, true);
        got += n;
    }
    bal_core_keep(r->core, got ? r->core->now_ns : run_now());
    send_own(r);
    for (uint32_t i = 0; i < r->plane->devices; i++) run_flush(r, i);
    return got;
}

static int run_core(void *arg)
{
    struct run r = {.plane = arg, .queue = (uint16_t)rte_lcore_index((int)rte_lcore_id())};
    const struct timespec pause = {0, PAUSE_NS};
    uint32_t empty = 0;
    r.core = bal_core_begin(r.plane->bal, r.queue);
    if (!r.core) return -EINVAL;
    while (!atomic_load_explicit(&r.plane->bal->stop, memory_order_relaxed)) {
        empty = poll_once(&r) ? 0 : empty + 1;
        if (r.plane->software && empty > EMPTY_POLLS) nanosleep(&pause, NULL);
    }
    bal_core_end(r.core);
    return 0;
}

/* ---- from beginning to end ---- */

static int run_all_cores(struct plane *d, const struct bal_run *how)
{
    if (how->started) how->started(how->arg);
    rte_eal_mp_remote_launch(run_core, d, SKIP_MAIN);
    run_core(d);
    rte_eal_mp_wait_lcore();
    return 0;
}

/* One size of buffer fits each device's packets: a packet that came by one leaves by another. */
static void take_mtus(struct plane *d, const struct bal_run *how)
{
    d->buffer = RTE_MBUF_DEFAULT_BUF_SIZE;
    for (uint32_t i = 0; i < how->devices; i++) {
        d->mtu[i] = how->mtu[i] ? how->mtu[i] : RTE_ETHER_MTU;
        uint32_t buffer = RTE_ALIGN_CEIL(RTE_PKTMBUF_HEADROOM + d->mtu[i] + L2_LEN + SPARE, 64);
        if (buffer > d->buffer) d->buffer = buffer;
    }
}

int gw_balance_run(struct bal *bal, const struct bal_run *how, char *error, size_t size)
{
    struct plane d = {
        .bal = bal, .devices = how->devices, .cores = bal->attr.cores, .error = error, .size = size};
    bool pci = false;
    int err = 0;
    if (!how->devices || how->devices > BAL_PORTS)
        return run_refuse(&d, -EINVAL, "the balancer needs 1 to %d network devices", BAL_PORTS);
    take_mtus(&d, how);
    for (uint32_t i = 0; i < how->devices && !err; i++) { /* before DPDK starts, which works only once */
        struct bal_device v;
        err = parse_device(&d, i, how->device[i], &v);
        if (!err) err = check_device(&d, &v, how->device[i], d.mtu[i]);
        pci |= !strcmp(v.bus, "pci");
    }
    if (!err) err = start_dpdk(&d, how, pci);
    if (err) return err;
    if (rte_lcore_count() != d.cores)
        err = run_refuse(&d, -EINVAL, "%u processors are named, and the balancer has %u cores",
                         rte_lcore_count(), d.cores);
    for (uint32_t i = 0; i < d.devices && !err; i++) err = open_device(&d, i, how->device[i]);
    if (!err) err = make_pools(&d, how->buffers);
    for (uint32_t i = 0; i < d.devices && !err; i++) err = set_up_queues(&d, i, how->device[i]);
    if (!err) err = run_all_cores(&d, how);
    uint16_t port;
    RTE_ETH_FOREACH_DEV(port)
    {
        rte_eth_dev_stop(port);
        rte_eth_dev_close(port);
    }
    rte_eal_cleanup();
    return err;
}
