/* SPDX-License-Identifier: Apache-2.0 */
/* The process's connection management: what the state machine lives in. */
#include "softnic/cm/service.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "softnic/base/clock.h"
#include "softnic/base/cred.h"
#include "softnic/base/secret.h"
#include "softnic/base/spawn.h"
#include "softnic/config/addr.h"
#include "softnic/runtime/process.h"
#include "softnic/sysfs/tree.h"
#include "softnic/wire/near.h"
#include "src/roce/segment.h"

enum { LETTERS_AT_ONCE = 64, WATCHED_AT_ONCE = 16, EXIT_MS = 300, FAREWELL_MS = 700, STACK = 256 << 10 };

static struct cm the_cm;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct sn_process_callbacks *callbacks; /* atomic; all who set it set the same */

static struct {
    pthread_mutex_t lock; /* around going up; taken before the state machine's */
    bool up, stop;        /* stop: atomic */
    struct sn_nic *nics[SN_MAX_NICS];
    uint32_t scope[SN_MAX_NICS]; /* of the NIC's address */
    bool has_port[SN_MAX_NICS];  /* port 4791 is its user's: no other user's process gets what comes there */
    bool on_wire_only[SN_MAX_NICS]; /* what it sends is to be seen, or disturbed, or goes its own way */
    struct sn_near_cache near_cache;
    int watch, wake_fd, mail[2];
    pthread_t thread;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER, .watch = -1, .wake_fd = -1, .mail = {-1, -1}};

/* ---- the state machine's environment ------------------------------------------------------------------- */

static uint64_t cm_service_now(void *ctx)
{
    (void)ctx;
    return sn_now_ns();
}

/* Is that an address of this host? */
static bool is_here(const struct cm_nic *nic, const uint8_t gid[16])
{
    struct sn_addr addr = {.scope = service.scope[nic->index]};

    GW_ASSERT_HELD(&the_cm.lock);
    memcpy(addr.gid, gid, 16);
    return sn_near_is(&service.near_cache, &addr);
}

/*
 * A request to a service of this host goes straight to the process that has claimed it. Over the wire it
 * would come to any process that listens to port 4791 there, perhaps another user's. False: it goes over the
 * wire.
 */
static bool send_letter(const struct cm_nic *nic, const uint8_t dgid[16], const uint8_t mad[ROCE_MAD_LEN])
{
    struct cm_letter letter = {.from.slot = nic->slot};
    struct roce_cm m;

    if (roce_cm_parse(mad, &m) || !cm_is_request(&m)) return false;
    if (service.on_wire_only[nic->index] || !is_here(nic, dgid)) return false;
    memcpy(letter.at, dgid, 16);
    memcpy(letter.from.gid, nic->gid, 16);
    memcpy(letter.mad, mad, ROCE_MAD_LEN);
    return cm_route_request(&m, &letter);
}

static void env_send(void *ctx, const struct cm_nic *nic, const uint8_t dgid[16],
                     const uint8_t mad[ROCE_MAD_LEN])
{
    (void)ctx;
    if (send_letter(nic, dgid, mad)) return;
    /* A wire that takes nothing now loses it, as any wire may. */
    sn_nic_mad_send(service.nics[nic->index], dgid, mad);
}

static int env_claim(void *ctx, const struct cm_nic *nic, uint16_t ps, uint16_t port)
{
    struct epoll_event ev = {.events = EPOLLIN};
    int fd = cm_route_claim(nic->gid, roce_cm_service_id(ps, port));

    (void)ctx;
    if (fd < 0) return fd;
    ev.data.fd = fd;
    if (epoll_ctl(service.watch, EPOLL_CTL_ADD, fd, &ev) == 0) return fd;
    int err = -errno;
    close(fd);
    return err;
}

static void env_release(void *ctx, int claim)
{
    (void)ctx;
    close(claim); /* which also ends the watch */
}

static void env_wake(void *ctx)
{
    uint64_t one = 1;

    (void)ctx;
    if (service.wake_fd >= 0 && write(service.wake_fd, &one, sizeof(one)) < 0)
        return; /* it is awake anyhow */
}

static bool env_source(void *ctx, const uint8_t dgid[16], uint8_t gid[16])
{
    struct sn_addr to = {0}, from;

    (void)ctx;
    memcpy(to.gid, dgid, 16);
    if (!sn_addr_source(&to, &from)) return false;
    memcpy(gid, from.gid, 16);
    return true;
}

static void env_warn(void *ctx, const char *line)
{
    (void)ctx;
    fprintf(stderr, "gpuwire: process %d: %s\n", (int)getpid(), line);
}

static int env_random(void *ctx, void *to, size_t len)
{
    (void)ctx;
    return sn_secret(to, len);
}

static void init_once(void)
{
    const struct cm_env env = {.send = env_send,
                               .claim = env_claim,
                               .release = env_release,
                               .now = cm_service_now,
                               .wake = env_wake,
                               .source = env_source,
                               .random = env_random,
                               .warn = env_warn};

    cm_init(&the_cm, &env);
}

void cm_service_use(const struct sn_process_callbacks *use)
{
    __atomic_store_n(&callbacks, use, __ATOMIC_RELAXED);
}

struct cm *cm_service(void)
{
    pthread_once(&once, init_once);
    return &the_cm;
}

/* ---- the thread ---------------------------------------------------------------------------------------- */

/* A stranger's letter, or one of our own user's. */
static void take_letter(struct cm_letter *letter, const struct ucred *who)
{
    const struct cm_nic *nic = cm_nic_at(&the_cm, letter->at);
    struct roce_cm m;
    struct cm_writer w;
    const char *wrong;
    char why[160];

    if (!nic || roce_cm_parse(letter->mad, &m)) return;
    w = (struct cm_writer){.ours = sn_cred_is_ours(who) || sn_cred_is_user(who, 0),
                           .speaks_for_here = is_here(nic, letter->from.gid),
                           .may_speak_for_others = !service.has_port[nic->index]};
    wrong = cm_letter_refused(letter, &m, &w);
    if (!wrong) {
        cm_input(&the_cm, letter->at, &letter->from, letter->mad);
        return;
    }
    snprintf(why, sizeof(why), "process %d of user %u passed it on, %s", (int)who->pid, (unsigned)who->uid,
             wrong);
    cm_suspect(&the_cm, &letter->from, &m, why);
}

/* To a claim. */
static void read_letters(int fd)
{
    struct cm_letter letter;
    struct ucred who;
    int got = 1;

    for (int i = 0; i < LETTERS_AT_ONCE && got >= 0; i++) {
        got = cm_letter_read(fd, &letter, &who);
        if (got > 0) take_letter(&letter, &who);
    }
}

/* From this process itself: what came over the wire. */
static void read_mailbox(void)
{
    struct cm_letter letter;

    for (int i = 0; i < LETTERS_AT_ONCE; i++) {
        ssize_t n = recv(service.mail[0], &letter, sizeof(letter), MSG_DONTWAIT);

        if (n < 0) return;
        if (n == (ssize_t)sizeof(letter)) cm_input(&the_cm, letter.at, &letter.from, letter.mad);
    }
}

/* A ready fd may have been given back since. Its number may be another's by now, a program's say. */
static bool is_claim(int fd)
{
    struct sn_link *it, *tmp;

    GW_ASSERT_HELD(&the_cm.lock);
    sn_list_each(it, tmp, &the_cm.ports)
    {
        if (cm_port_claimed(sn_entry(it, struct cm_port, link), fd)) return true;
    }
    return false;
}

static int milliseconds(uint64_t next)
{
    uint64_t now = sn_now_ns(), left = next > now ? next - now : 0;

    if (next == SN_NEVER) return -1;
    return left > 3600u * UINT64_C(1000000000) ? 3600000 : (int)((left + 999999) / 1000000);
}

static void *cm_service_main(void *arg)
{
    struct epoll_event ready[WATCHED_AT_ONCE];
    uint64_t next = SN_NEVER, count;

    (void)arg;
    prctl(PR_SET_NAME, "gw-cm");
    while (!__atomic_load_n(&service.stop, __ATOMIC_RELAXED)) {
        int n = epoll_wait(service.watch, ready, WATCHED_AT_ONCE, milliseconds(next));

        pthread_mutex_lock(&the_cm.lock);
        for (int i = 0; i < n; i++) {
            if (ready[i].data.fd == service.mail[0])
                read_mailbox();
            else if (is_claim(ready[i].data.fd))
                read_letters(ready[i].data.fd);
            else if (ready[i].data.fd == service.wake_fd && read(service.wake_fd, &count, sizeof(count)) < 0)
                continue; /* another thread's request was taken with ours */
        }
        next = cm_tick(&the_cm);
        pthread_mutex_unlock(&the_cm.lock);
    }
    return NULL;
}

/* ---- going up ------------------------------------------------------------------------------------------ */

static void close_fds(void)
{
    int *fds[] = {&service.watch, &service.wake_fd, &service.mail[0], &service.mail[1]};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (*fds[i] >= 0) close(*fds[i]);
        *fds[i] = -1;
    }
}

static int open_fds(void)
{
    struct epoll_event ev = {.events = EPOLLIN};

    service.watch = epoll_create1(EPOLL_CLOEXEC);
    service.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (service.watch < 0 || service.wake_fd < 0) return -errno;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, service.mail)) return -errno;
    ev.data.fd = service.wake_fd;
    if (epoll_ctl(service.watch, EPOLL_CTL_ADD, service.wake_fd, &ev)) return -errno;
    ev.data.fd = service.mail[0];
    return epoll_ctl(service.watch, EPOLL_CTL_ADD, service.mail[0], &ev) ? -errno : 0;
}

/* The NIC at an address; of several there the first, because an address is all that a peer can name. */
static void add_nic(struct cm_nic *nics, unsigned *count, unsigned index, const struct sn_process_info *info)
{
    const uint8_t *gid = info->config.addr.gid;

    for (unsigned i = 0; i < *count; i++)
        if (!memcmp(nics[i].gid, gid, 16)) return;
    nics[*count] = (struct cm_nic){.slot = (uint8_t)info->slot,
                                   .mtu = (uint8_t)roce_mtu_enum(info->config.mtu),
                                   .gid_index = (uint8_t)info->config.tables.own,
                                   .guid = sn_guid(gid, index),
                                   .index = index};
    memcpy(nics[(*count)++].gid, gid, 16);
    service.scope[index] = info->config.addr.scope;
    service.has_port[index] = info->has_port;
    service.on_wire_only[index] = info->config.eth.on || info->config.pcap[0] || info->config.fault.given;
}

/* Takes all NICs of the process: a program may listen at all of their addresses. */
static int take_nics(unsigned *taken, struct cm_nic *nics, unsigned *count)
{
    char why[SN_CONFIG_WHY];
    int n = sn_process_nics(why), err = n < 0 ? n : 0;

    if (err) fprintf(stderr, "gpuwire: %s\n", why);
    for (unsigned i = 0; !err && i < (unsigned)n; i++) {
        struct sn_process_info info;

        err = sn_process_nic_get(i, __atomic_load_n(&callbacks, __ATOMIC_RELAXED), &service.nics[i]);
        if (err) break;
        ++*taken;
        err = sn_process_nic_info(i, &info);
        if (!err) add_nic(nics, count, i, &info);
    }
    return err;
}

static int cm_service_begin(const struct cm_nic *nics, unsigned count)
{
    int err = open_fds();

    if (err) return err;
    pthread_mutex_lock(&the_cm.lock);
    memcpy(the_cm.nics, nics, sizeof(the_cm.nics));
    the_cm.nic_count = count;
    pthread_mutex_unlock(&the_cm.lock);
    err = sn_spawn(&service.thread, STACK, cm_service_main, NULL);
    if (!err) cm_route_mailbox(service.mail[1]);
    return err;
}

static int go_up(void)
{
    struct cm_nic nics[SN_MAX_NICS] = {0};
    unsigned taken = 0, count = 0;
    int err = take_nics(&taken, nics, &count);

    GW_ASSERT_HELD(&service.lock);
    if (!err) {
        err = cm_service_begin(nics, count);
        if (!err) return 0;
        fprintf(stderr, "gpuwire: cannot start connection management: %s\n", strerror(-err));
        close_fds();
    }
    while (taken) sn_process_nic_put(service.nics[--taken]);
    return err;
}

int cm_service_up(void)
{
    int err = 0;

    cm_service();
    pthread_mutex_lock(&service.lock);
    if (!service.up) {
        err = go_up();
        service.up = !err;
    }
    pthread_mutex_unlock(&service.lock);
    return err;
}

/* ---- going down ---------------------------------------------------------------------------------------- */

static void close_claims(const struct cm_port *p)
{
    for (unsigned i = 0; i < SN_MAX_NICS; i++)
        if (p->claims[i] >= 0) close(p->claims[i]);
}

/* The claims are the parent's: a copy here would keep them from being freed when it dies. Locks are
 * initialized again, whether or not it was up: a thread that is not here may hold them. */
void cm_service_fork_child(void)
{
    struct sn_link *it, *tmp;

    cm_route_fork_child();
    if (service.up) {
        sn_list_each(it, tmp, &the_cm.ports) close_claims(sn_entry(it, struct cm_port, link));
    }
    close_fds();
    service.up = false;
    pthread_mutex_init(&service.lock, NULL);
    init_once();
}

static const struct timespec exit_step = {.tv_nsec = 1000000};

static bool cm_service_lock_soon(int *ms)
{
    while (pthread_mutex_trylock(&the_cm.lock)) {
        if ((*ms)++ == EXIT_MS) return false;
        nanosleep(&exit_step, NULL);
    }
    return true;
}

static bool anybody_waits_for_an_answer(void)
{
    GW_ASSERT_HELD(&the_cm.lock);
    for (uint32_t i = 0; i < the_cm.high; i++)
        if (the_cm.ids[i] && the_cm.ids[i]->state == CM_DREQ_SENT) return true;
    return false;
}

/* A farewell may get lost, and after the process's end it is not repeated: the peer would wait forever.
 * Leaves the lock for moments. False: it could not be had again. */
static bool await_answers(int *ms)
{
    for (int waited = 0; waited < FAREWELL_MS && anybody_waits_for_an_answer(); waited++) {
        pthread_mutex_unlock(&the_cm.lock);
        nanosleep(&exit_step, NULL);
        if (!cm_service_lock_soon(ms)) return false;
    }
    return true;
}

/* The process ends: peers are told, as the kernel would tell them. Other threads may still be inside. */
__attribute__((destructor)) static void cm_service_at_exit(void)
{
    int ms = 0;

    if (!service.up || !cm_service_lock_soon(&ms)) return;
    cm_leave(&the_cm);
    env_wake(NULL); /* the thread repeats what is not answered */
    if (!await_answers(&ms)) return;
    __atomic_store_n(&service.stop, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&the_cm.lock);
    env_wake(NULL);
    while (pthread_tryjoin_np(service.thread, NULL) && ms++ < EXIT_MS) nanosleep(&exit_step, NULL);
}
