/* SPDX-License-Identifier: Apache-2.0 */
/* How queue pairs meet: records as text, and by address and port; between two processes with a NIC each. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include <gpuwire/connect.h>

#include "tests/verbs/side.h"

/* the other: of this process's second NIC; empty: there is none */
static char own_address[48], other_address[48];

static struct side side;

static int put_and_wait(struct side *s, const struct gw_region *to, uint32_t len, enum ibv_wc_status want)
{
    return put_and_wait_at(s, to->addr, to->rkey, len, want);
}

static void ended_well(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* ---- records ------------------------------------------------------------------------------------------- */

#define GOOD "gw:1:00000000000000000000ffff7f000001:000002:000000:1024:0"

static void a_record_survives_its_text(void **state)
{
    struct gw_record r = {.ep = {.qpn = 0xffffff, .psn = 0xffffff, .mtu = 4096, .lid = 65535},
                          .region = {UINT64_MAX - 7, 8, UINT32_MAX}},
                     got;
    char text[GW_RECORD_TEXT];

    (void)state;
    memset(r.ep.gid, 0xff, 16);
    gw_record_format(&r, text);
    assert_string_equal(
        text, "gw:1:ffffffffffffffffffffffffffffffff:ffffff:ffffff:4096:65535:fffffffffffffff8:8:ffffffff");
    assert_int_equal(gw_record_parse(text, &got), 0);
    assert_memory_equal(&got, &r, sizeof(r));
    r.region = (struct gw_region){0};
    gw_record_format(&r, text);
    assert_int_equal(gw_record_parse(text, &got), 0);
    assert_memory_equal(&got, &r, sizeof(r));
}

static void hostile_records_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "gw",
        "gw:",
        "gw:1",
        "gw::",
        "gw:x:",
        GOOD ":",
        GOOD ":1",
        GOOD ":1:2",
        GOOD ":1:2:",
        GOOD ":1:0:3",
        GOOD ":1:2:100000000",
        GOOD ":1:2:3:",
        GOOD ":1:2:3 ",
        GOOD ":1:2:3\n",
        GOOD "\n",
        " " GOOD,
        GOOD ": 1:2:3",
        GOOD ":-1:2:3",
        GOOD ":10000000000000000:2:3",
        GOOD ":fffffffffffffffe:3:3",
        GOOD ":g:2:3",
        "gw:1:00000000000000000000ffff7f000001:000001:000000:1024:0",
        "gw:12345678901:x",
        "gw:1:00000000000000000000ffff7f000001:000002:1000000:1024:0",
        "gw:1:00000000000000000000ffff7f000001:000002:000000:255:0",
        "gw:1:00000000000000000000ffff7f000001:000002:000000:1024:65536",
    };
    struct gw_record got = {.ep = {.lid = 77}};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (gw_record_parse(bad[i], &got) != -EINVAL) fail_msg("%s: %s", bad[i], gw_last_error());
    assert_int_equal(gw_record_parse("gw:2:anything", &got), -EPROTONOSUPPORT);
    assert_non_null(strstr(gw_last_error(), "version 2"));
    assert_int_equal(got.ep.lid, 77);
}

static int tell_record(struct side *s, int fd, struct gw_record *theirs)
{
    char text[GW_RECORD_TEXT] = "", got[GW_RECORD_TEXT];
    struct gw_record mine;

    gw_record_of(s->qp, s->mr, &mine);
    gw_record_format(&mine, text);
    TRY(write(fd, text, sizeof(text)) == sizeof(text));
    TRY(recv(fd, got, sizeof(got), MSG_WAITALL) == sizeof(got));
    TRY(!gw_record_parse(got, theirs) && theirs->region.length == SIDE_BYTES);
    TRY(!gw_qp_connect(s->qp, &theirs->ep, NULL));
    TRY(write(fd, "c", 1) == 1 && recv(fd, got, 1, MSG_WAITALL) == 1); /* both are connected */
    return 0;
}

static int record_child(int fd)
{
    struct gw_record theirs;
    char go;

    TRY(!open_side(&side, "softnic") && !tell_record(&side, fd, &theirs));
    TRY(read(fd, &go, 1) == 1 && !memcmp(side.mem, "by record", 10));
    return close_side(&side);
}

static void two_processes_meet_by_record(void **state)
{
    struct gw_record theirs;
    int fd;
    pid_t pid = child_exec("record", own_address, &fd);

    (void)state;
    assert_int_equal(open_side(&side, "softnic"), 0);
    assert_int_equal(tell_record(&side, fd, &theirs), 0);
    memcpy(side.mem, "by record", 10);
    assert_int_equal(put_and_wait(&side, &theirs.region, 10, IBV_WC_SUCCESS), 0);
    assert_int_equal(write(fd, "g", 1), 1);
    ended_well(pid);
    assert_int_equal(close_side(&side), 0);
    close(fd);
}

/* ---- by address and port ------------------------------------------------------------------------------- */

/* The peer leaves between its request and the acceptance. The pause lets its farewell come first. */
static int accept_late(int fd, struct gw_request *r)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    struct gw_link *link;
    char gone;

    TRY(write(fd, "t", 1) == 1 && read(fd, &gone, 1) == 1);
    nanosleep(&pause, NULL);
    TRY(gw_cm_accept(r, side.qp, NULL, NULL, -1, gw_deadline(LIMIT), &link) == -ECONNRESET && !link);
    TRY(!gw_qp_reset(side.qp, GW_RESET_QUIET, 0));
    TRY(write(fd, "d", 1) == 1);
    return 0;
}

/* Accepts one after the other what comes, as the word on the pipe says: a accept, l accept late, r refuse,
 * n take none. */
static int listening_child(int fd)
{
    struct gw_listener *l;
    struct gw_request *r;
    struct gw_link *link;
    struct gw_offer mine = {.data_len = 3, .data = "you"};
    uint16_t port;
    char what;

    TRY(!open_side(&side, "softnic") && !gw_cm_listen(side.dev, own_address, 0, &l));
    mine.region = (struct gw_region){side.mr->addr, side.mr->length, side.mr->rkey};
    port = gw_cm_port(l);
    TRY(port && write(fd, &port, sizeof(port)) == sizeof(port));
    while (read(fd, &what, 1) == 1) {
        if (what == 'm') { /* malformed, or of another version */
            TRY(gw_cm_next(l, -1, gw_deadline(LIMIT), &r) == -EPROTO && !r);
            continue;
        }
        TRY(!gw_cm_next(l, -1, gw_deadline(LIMIT), &r));
        TRY(gw_cm_offer(r)->data_len == 2 && !memcmp(gw_cm_offer(r)->data, "me", 2));
        TRY(!strcmp(gw_cm_peer(r), own_address));
        if (what == 'r') gw_cm_refuse(r, "no room\nfor you");
        if (what == 'l') TRY(!accept_late(fd, r));
        if (what != 'a') continue;
        TRY(!gw_cm_accept(r, side.qp, NULL, &mine, -1, gw_deadline(LIMIT), &link));
        TRY(gw_cm_ended(link, -1, 0) == 0);
        TRY(write(fd, "e", 1) == 1); /* established */
        TRY(gw_cm_ended(link, -1, gw_deadline(LIMIT)) == 1);
        TRY(!memcmp(side.mem, "by address", 11));
        gw_cm_close(link);
        TRY(!gw_qp_reset(side.qp, GW_RESET_QUIET, 0));
        TRY(write(fd, "d", 1) == 1);
    }
    gw_cm_unlisten(l);
    return close_side(&side);
}

static struct {
    pid_t pid;
    int fd;
    uint16_t port;
} peer;

static int start_listener(void **state)
{
    (void)state;
    peer.pid = child_exec("listen", own_address, &peer.fd);
    assert_true(peer.pid > 0);
    if (recv(peer.fd, &peer.port, sizeof(peer.port), MSG_WAITALL) != sizeof(peer.port)) return -1;
    return open_side(&side, "softnic");
}

static int stop_listener(void **state)
{
    int status;

    (void)state;
    close(peer.fd);
    if (waitpid(peer.pid, &status, 0) != peer.pid) return -1;
    return close_side(&side) || (WIFEXITED(status) && WEXITSTATUS(status));
}

static int to_peer(const struct gw_connect_opts *o, uint64_t limit_ns, struct gw_offer *theirs,
                   struct gw_link **link)
{
    struct gw_offer mine = {.data_len = 2, .data = "me"};

    return gw_cm_connect(side.qp, own_address, peer.port, o, &mine, -1, gw_deadline(limit_ns), theirs, link);
}

static void tell(const char *word)
{
    assert_int_equal(write(peer.fd, word, 1), 1);
}

static void two_processes_meet_by_address(void **state)
{
    const struct gw_connect_opts opts[] = {{0}, {.mtu = 512, .rd_atomic = 1, .timeout = 16, .retry_cnt = 3}};
    struct gw_offer theirs;
    struct gw_link *link;
    char ok;

    (void)state;
    for (int i = 0; i < 2; i++) { /* the same queue pair again, on other terms */
        tell("a");
        assert_int_equal(to_peer(&opts[i], LIMIT, &theirs, &link), 0);
        assert_int_equal(theirs.data_len, 3);
        assert_memory_equal(theirs.data, "you", 3);
        assert_int_equal(theirs.region.length, SIDE_BYTES);
        assert_int_equal(recv(peer.fd, &ok, 1, MSG_WAITALL), 1);
        memcpy(side.mem, "by address", 11);
        memset(side.mem + 11, i, 9000);
        assert_int_equal(put_and_wait(&side, &theirs.region, 9011, IBV_WC_SUCCESS), 0);
        gw_cm_close(link);
        assert_int_equal(recv(peer.fd, &ok, 1, MSG_WAITALL), 1);
        assert_int_equal(ok, 'd');
        assert_int_equal(gw_qp_reset(side.qp, GW_RESET_QUIET, 0), 0);
    }
}

/* A signal takes a while to arrive, and until then the peer's NIC answers and its memory can be written. */
static void strike_peer(int signal, int until)
{
    siginfo_t info;

    assert_int_equal(kill(peer.pid, signal), 0);
    assert_int_equal(waitid(P_PID, (id_t)peer.pid, &info, until | WNOWAIT), 0);
}

static void a_refusal_says_why(void **state)
{
    struct gw_link *link;

    (void)state;
    tell("r");
    assert_int_equal(to_peer(NULL, LIMIT, NULL, &link), -ECONNREFUSED);
    assert_null(link);
    assert_non_null(strstr(gw_last_error(), "no room?for you"));
}

/* Waits until the peer has our request, and ends the wait for its answer. */
static void *leave_soon(void *stop)
{
    char taken;

    return recv(peer.fd, &taken, 1, MSG_WAITALL) == 1 && !eventfd_write(*(int *)stop, 1) ? NULL : stop;
}

static void who_leaves_early_is_said_to_be_gone(void **state)
{
    int stop = eventfd(0, 0);
    struct gw_link *link;
    pthread_t thread;
    void *failed;
    char done;

    (void)state;
    tell("l");
    assert_int_equal(pthread_create(&thread, NULL, leave_soon, &stop), 0);
    assert_int_equal(gw_cm_connect(side.qp, own_address, peer.port, NULL,
                                   &(struct gw_offer){.data_len = 2, .data = "me"}, stop, gw_deadline(LIMIT),
                                   NULL, &link),
                     -ECANCELED);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    tell("g");
    assert_int_equal(recv(peer.fd, &done, 1, MSG_WAITALL), 1);
    assert_int_equal(done, 'd');
    close(stop);
}

static void nobody_listens(void **state)
{
    struct gw_listener *l, *taken;
    struct gw_link *link;
    uint16_t port;

    (void)state;
    assert_int_equal(gw_cm_listen(side.dev, NULL, 0, &l), 0);
    port = gw_cm_port(l);
    assert_int_equal(gw_cm_listen(side.dev, NULL, port, &taken), -EADDRINUSE);
    gw_cm_unlisten(l);
    assert_int_equal(
        gw_cm_connect(side.qp, own_address, port, NULL, NULL, -1, gw_deadline(LIMIT), NULL, &link),
        -ECONNREFUSED);
    assert_non_null(strstr(gw_last_error(), "no program listens"));
    assert_int_equal(gw_cm_listen(side.dev, "192.0.2.1", 0, &l), -EADDRNOTAVAIL);
    assert_int_equal(
        gw_cm_connect(side.qp, "no.such.host.invalid", port, NULL, NULL, -1, gw_deadline(LIMIT), NULL, &link),
        -ENOENT);
}

/* A peer that is stopped answers nothing: the deadline holds. Then a stop_fd, while it still does not. */
static void a_silent_peer_costs_no_more_than_the_deadline(void **state)
{
    uint64_t before = gw_clock_ns();
    struct gw_link *link;
    int stop = eventfd(1, 0);

    (void)state;
    strike_peer(SIGSTOP, WSTOPPED);
    assert_int_equal(to_peer(NULL, 300000000u, NULL, &link), -ETIMEDOUT);
    assert_true(gw_clock_ns() - before < 30000000000u);
    assert_int_equal(gw_qp_reset(side.qp, GW_RESET_QUIET, 0), 0);
    assert_int_equal(
        gw_cm_connect(side.qp, own_address, peer.port, NULL, NULL, stop, gw_deadline(LIMIT), NULL, &link),
        -ECANCELED);
    close(stop);
    kill(peer.pid, SIGKILL);
}

static void a_killed_peer_is_noticed(void **state)
{
    const struct gw_connect_opts o = {.timeout = 14, .retry_cnt = 2};
    struct gw_offer theirs;
    struct gw_link *link;
    struct gw_fault fault;
    char ok;

    (void)state;
    tell("a");
    assert_int_equal(to_peer(&o, LIMIT, &theirs, &link), 0);
    assert_int_equal(recv(peer.fd, &ok, 1, MSG_WAITALL), 1);
    strike_peer(SIGKILL, WEXITED);
    assert_int_equal(put_and_wait(&side, &theirs.region, 64, IBV_WC_RETRY_EXC_ERR), 0);
    assert_int_equal(gw_qp_fault(side.qp, &fault), 1);
    gw_cm_close(link);
}

/* A client of its own making, that says something else than ours does. */
static void asks_with(const char *data, size_t len, const char *reason)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP,
                                  .ai_family = strchr(own_address, ':') ? AF_INET6 : AF_INET},
                         *list;
    struct ibv_qp_init_attr qa = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct rdma_conn_param p = {.private_data = data, .private_data_len = (uint8_t)len};
    struct rdma_cm_id *id;
    char port[8];

    snprintf(port, sizeof(port), "%u", peer.port);
    assert_int_equal(rdma_getaddrinfo(own_address, port, &hints, &list), 0);
    assert_int_equal(rdma_create_ep(&id, list, NULL, &qa), 0);
    assert_int_equal(rdma_connect(id, &p), -1);
    assert_int_equal(errno, ECONNREFUSED);
    if (reason) assert_non_null(strstr((const char *)id->event->param.conn.private_data + 4, reason));
    rdma_destroy_ep(id);
    rdma_freeaddrinfo(list);
}

static void other_versions_are_turned_away(void **state)
{
    struct gw_offer theirs;
    struct gw_link *link;
    char ok;

    (void)state;
    tell("m");
    asks_with("gw\2\1", 5, "version 2");
    tell("m");
    asks_with("", 1, "does not speak");
    tell("m");
    asks_with("gw\1\1\0\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377\0\0\0\0\3", 26, "malformed");
    tell("a"); /* and it still serves others */
    assert_int_equal(to_peer(NULL, LIMIT, &theirs, &link), 0);
    assert_int_equal(recv(peer.fd, &ok, 1, MSG_WAITALL), 1);
    memcpy(side.mem, "by address", 11);
    assert_int_equal(put_and_wait(&side, &theirs.region, 11, IBV_WC_SUCCESS), 0);
    gw_cm_close(link);
    assert_int_equal(recv(peer.fd, &ok, 1, MSG_WAITALL), 1);
}

/* Of several NICs each has its own address, and takes no other's. */
static void another_nics_address(void **state)
{
    struct gw_listener *l;
    struct gw_offer theirs;
    struct gw_link *link;
    char ok;

    (void)state;
    if (!*other_address) skip();
    assert_int_equal(gw_cm_listen(side.dev, other_address, 0, &l), -EXDEV);
    assert_null(l);
    assert_non_null(strstr(gw_last_error(), "the queue pair is on"));
    /* And it still serves. */
    assert_int_equal(gw_cm_listen(side.dev, own_address, 0, &l), 0);
    gw_cm_unlisten(l);
    tell("a");
    assert_int_equal(to_peer(NULL, LIMIT, &theirs, &link), 0);
    assert_int_equal(recv(peer.fd, &ok, 1, MSG_WAITALL), 1);
    memcpy(side.mem, "by address", 11);
    assert_int_equal(put_and_wait(&side, &theirs.region, 11, IBV_WC_SUCCESS), 0);
    gw_cm_close(link);
    assert_int_equal(recv(peer.fd, &ok, 1, MSG_WAITALL), 1);
}

#define WITH_PEER(test) cmocka_unit_test_setup_teardown(test, start_listener, stop_listener)

static int tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_survives_its_text),
        cmocka_unit_test(hostile_records_are_refused),
        cmocka_unit_test(two_processes_meet_by_record),
        WITH_PEER(two_processes_meet_by_address),
        WITH_PEER(a_refusal_says_why),
        WITH_PEER(who_leaves_early_is_said_to_be_gone),
        WITH_PEER(nobody_listens),
        WITH_PEER(a_silent_peer_costs_no_more_than_the_deadline),
        WITH_PEER(a_killed_peer_is_noticed),
        WITH_PEER(other_versions_are_turned_away),
        WITH_PEER(another_nics_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    const char *address = getenv("CONNECT_ADDRESS"); /* instead: an IPv6 one */
    char nic[128];

    /* An address of this run's own, on which no other processes are. */
    snprintf(own_address, sizeof(own_address), "127.%d.%d.7", 20 + getpid() / 250 % 200, 1 + getpid() % 250);
    if (argc == 3) snprintf(own_address, sizeof(own_address), "%s", argv[2]);
    if (address && argc != 3) snprintf(own_address, sizeof(own_address), "%s", address);
    if (getenv("CONNECT_NICS")) { /* two of them */
        snprintf(other_address, sizeof(other_address), "%s", own_address);
        other_address[strlen(other_address) - 1]++;
    }
    snprintf(nic, sizeof(nic), *other_address ? "addr=%s;addr=%s" : "addr=%s", own_address, other_address);
    setenv("GPUWIRE_NIC", nic, 1);
    if (argc != 3) return tests();
    return (strcmp(argv[0], "record") ? listening_child : record_child)(atoi(argv[1])) ? 1 : 0;
}
