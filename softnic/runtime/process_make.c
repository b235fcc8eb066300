/* SPDX-License-Identifier: Apache-2.0 */
/* How one of the process's NICs comes and goes: settings, the wire, the NIC on it, its thread, its socket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softnic/base/secret.h"
#include "softnic/cuda/copier.h"
#include "softnic/cuda/cuda.h"
#include "softnic/runtime/process_state.h"

enum { STOP_MS = 1000 }; /* it takes less than a millisecond, on a machine that is not overloaded */
/* Bytes under way per queue pair; WINDOW_PACKET: what a small packet takes of a buffer, about. */
enum { PEERS_AT_ONCE = 8, WINDOW_MIN = 128 << 10, WINDOW_MAX = 512 << 10, WINDOW_PACKET = 2048 };

/* A set-user-ID program's environment is another user's, who could have it write a capture over any file. */
static const char *process_make_settings(void)
{
    static bool told;
    const char *given = secure_getenv("GPUWIRE_NIC");

    if (!given && getenv("GPUWIRE_NIC") && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        fprintf(
            stderr,
            "gpuwire: GPUWIRE_NIC is ignored: this program has more rights than the user who started it\n");
    return given;
}

int sn_process_nics(char why[SN_CONFIG_WHY])
{
    return sn_config_count(process_make_settings(), why);
}

int sn_process_config(unsigned index, struct sn_config *config, char why[SN_CONFIG_WHY])
{
    int err = sn_config_nth(process_make_settings(), index, config, why);

    if (err) return err;
    if (!config->has_addr) sn_addr_default(&config->addr);
    if (!config->mtu)
        config->mtu = config->eth.on ? sn_eth_path_mtu(&config->eth) : sn_addr_path_mtu(&config->addr);
    if (config->has_seed) return 0;
    err = sn_secret(&config->seed, sizeof(config->seed));
    if (err) snprintf(why, SN_CONFIG_WHY, "no random numbers: %s", strerror(-err));
    return err;
}

static void process_make_report(void *user, const char *line)
{
    const struct sn_process_nic *p = user;
    char text[SN_ADDR_TEXT];

    fprintf(stderr, "gpuwire: NIC %s (process %d): %s\n", sn_addr_text(&p->config.addr, text), (int)getpid(),
            line);
}

/*
 * The bytes that a queue pair may have under way. A peer's buffer, taken to be like ours, should hold those
 * of several at once. More than it holds is lost. But a peer on another core takes its time to wake up, and
 * more under way than it takes in one go costs nothing.
 */
static void process_make_set_window(const struct sn_process_nic *p, struct sn_nic_config *config)
{
    uint32_t bytes = sn_port_room(p->port) / PEERS_AT_ONCE;

    if (bytes < WINDOW_MIN) bytes = WINDOW_MIN;
    if (bytes > WINDOW_MAX) bytes = WINDOW_MAX;
    config->window_bytes = bytes;
    config->window_packets = bytes / WINDOW_PACKET;
}

_Static_assert((int)SN_PKEYS == (int)SN_MAX_PKEYS, "what can be set has room");

static void set_tables(const struct sn_tables *t, struct sn_nic_config *config)
{
    config->gids = (uint8_t)t->gids;
    for (unsigned i = 0; i < t->gids; i++) {
        config->gids_own |= (uint32_t)t->gid[i].own << i;
        config->gids_empty |= (uint32_t)sn_tables_empty(t, i) << i;
    }
    config->pkeys = (uint8_t)t->pkeys;
    memcpy(config->pkey, t->pkey, sizeof(config->pkey));
}

static int make_nic(struct sn_process_nic *p, const struct sn_process_callbacks *cb, char *why)
{
    const struct sn_config *c = &p->config;
    struct sn_nic_config config = {
        .slot = (uint8_t)sn_port_slot(p->port),
        .sport = sn_port_udp_port(p->port),
        .seed = c->seed,
        .secret = sn_secret,
        .hostile = c->hostile,
        .overtake = c->overtake,
        .by_index = c->by_index,
        .no_atomics = c->no_atomics,
        .no_masked = c->no_masked,
        .deaf = c->rings_lost,
        .ecn = !c->no_ecn,
        .max_mtu = c->mtu,
        /* What is to be seen or disturbed must be there: frames to the NIC itself take the wire too. */
        .loop_on_wire = !c->eth.on && (c->pcap[0] || c->fault.given),
        .wire = &sn_port_wire_ops,
        .wire_ctx = p->port,
        .peers = sn_port_local(p->port) ? &sn_local_peer_ops : NULL,
        .peers_ctx = sn_port_local(p->port),
        .user = cb->user,
        .cq_event = cb->cq_event,
        .async_event = cb->async_event,
        .mad = cb->mad,
        .report = c->verbose ? process_make_report : NULL,
        .warn = process_make_report,
        .report_all = c->verbose > 1,
        .report_user = p,
    };
    struct sn_nic *nic;
    int err;

    if (c->no_copy_kernel) sn_copier_allow(false);
    if (c->dma_lost) sn_cuda_lose();
    if (c->disordered) sn_cuda_disorder();
    memcpy(config.gid, c->addr.gid, 16);
    set_tables(&c->tables, &config);
    process_make_set_window(p, &config);
    err = sn_nic_create(&config, &nic);
    if (!err) sn_process_set_nic(p, nic);
    if (err) snprintf(why, 256, "cannot make a NIC: %s", strerror(-err));
    return err;
}

static void start_control(struct sn_process_nic *p, struct sn_thread *thread, sn_device_event *event)
{
    const char *given = process_make_settings();
    const uint64_t now = sn_now_ns();
    struct sn_control_parts parts = {p->nic, p->port, &p->config, thread, now, given ? given : "", event};

    p->control = NULL;
    if (sn_control_start(&parts, &p->control))
        fprintf(stderr, "gpuwire: no socket for `gpuwire nic`: it will not show this process\n");
}

static void stop_control(struct sn_process_nic *p)
{
    sn_control_stop(p->control);
    p->control = NULL;
}

static void note_fds(struct sn_process_nic *p)
{
    int fds[SN_PORT_FDS], n = sn_port_fds(p->port, fds), count = 0;

    if (sn_port_local(p->port)) n--; /* it closes its own, which come and go */
    for (int i = 0; i < n; i++) p->open_fds[count++] = fds[i];
    count += sn_port_claim_fds(p->port, p->open_fds + count);
    p->open_fds[count++] = sn_thread_fd(p->thread);
    if (p->workers) p->open_fds[count++] = sn_workers_fd(p->workers);
    if (sn_port_pcap(p->port)) {
        sn_pcap_fds(sn_port_pcap(p->port), p->open_fds + count);
        count += 2;
    }
    if (p->control) p->open_fds[count++] = sn_control_fd(p->control);
    p->open_fd_count = count;
}

static int start_threads(struct sn_process_nic *p, struct sn_thread **thread, char *why)
{
    int err = sn_thread_start(p->nic, p->port, p->config.poll, p->config.cpu, thread, why);

    p->workers = NULL;
    if (err || p->config.threads == 1) return err;
    err = sn_workers_start(p->nic, p->port, *thread, p->config.threads - 1, &p->workers, why);
    if (err && sn_thread_stop(*thread, STOP_MS) == 0) sn_thread_free(*thread);
    return err;
}

/* The workers first: they give the thread what is left. */
static int stop_threads(struct sn_process_nic *p, struct sn_thread *thread, int wait_ms)
{
    int err = p->workers ? sn_workers_stop(p->workers, wait_ms) : 0;

    if (!err && thread) err = sn_thread_stop(thread, wait_ms);
    return err;
}

int sn_process_start(struct sn_process_nic *p, const struct sn_process_callbacks *cb, char *why)
{
    struct sn_thread *thread;
    int err = sn_process_config((unsigned)(p - sn_process_table), &p->config, why);

    if (!err) err = sn_port_open(&p->config, &p->port, why);
    if (err) return err;
    if (p->config.verbose && sn_port_note_matters(p->port)) process_make_report(p, sn_port_note(p->port));
    sn_port_on_refused(p->port, cb->refused);
    err = make_nic(p, cb, why);
    if (!err) {
        err = start_threads(p, &thread, why);
        if (err) sn_nic_destroy(p->nic);
    }
    if (err) {
        sn_process_set_nic(p, NULL);
        sn_port_close(p->port);
        return err;
    }
    sn_process_set_thread(p, thread);
    start_control(p, thread, cb->device_event);
    note_fds(p);
    return 0;
}

void sn_process_stop(struct sn_process_nic *p)
{
    struct sn_thread *thread = sn_process_thread(p);

    p->open_fd_count = 0;
    stop_control(p);
    sn_process_set_thread(p, NULL);
    /* A thread that did not end in time is inside the NIC: then the process rather leaks than crashes. */
    if (stop_threads(p, thread, STOP_MS)) {
        fprintf(stderr, "gpuwire: a thread of the NIC did not end within %d ms; its memory is leaked\n",
                STOP_MS);
        return;
    }
    if (p->workers) sn_workers_free(p->workers);
    p->workers = NULL;
    if (thread) sn_thread_free(thread);
    if (sn_nic_destroy(p->nic)) {
        fprintf(stderr, "gpuwire: the NIC still has queues or regions; its memory is leaked\n");
        return;
    }
    sn_port_close(p->port);
}

static struct sn_thread *volatile left_at_exit[SN_MAX_NICS]; /* for leak checkers: still in use */

void sn_process_end(struct sn_process_nic *p)
{
    struct sn_thread *thread = sn_process_thread(p);

    sn_process_set_thread(p, NULL);
    stop_control(p);
    stop_threads(p, thread, SN_EXIT_MS);
    if (p->users && sn_nic_trylock(p->nic)) {
        sn_port_let_go(p->port);
        sn_nic_unlock(p->nic);
    }
    if (p->users && sn_port_pcap(p->port)) sn_pcap_flush(sn_port_pcap(p->port), SN_EXIT_MS);
    left_at_exit[p - sn_process_table] = thread; /* not freed: others may be about to use it */
}
