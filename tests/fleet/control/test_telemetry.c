/* SPDX-License-Identifier: Apache-2.0 */
/* Telemetry by RDMA: records in the controller's memory, over the software NIC, of workers that are whole,
 * that lose their queue pair, and that write nonsense. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/fleet/control/impl.h"
#include "src/fleet/worker/agent.h"
#include "src/fleet/worker/emulated.h"
#include "tests/fleet/control/rig.h"
#include "tests/fleet/worker_profile.h"

static struct fleet_control *control;
static struct fleet_pipes *pipes;
static char said[1 << 14];

static void say(void *ctx, const char *line)
{
    size_t n = strlen(said);
    (void)ctx;
    if (getenv("GW_TEST_SAYS")) fprintf(stderr, "%s\n", line);
    if (n + strlen(line) + 2 < sizeof(said)) sprintf(said + n, "%s\n", line);
}

static int begin(void **state)
{
    static const uint8_t id[FLEET_ID] = "this controller";
    struct fleet_control_opts o = {.fleet = "test",
                                   .name = "c1",
                                   .id = id,
                                   .listen = "127.0.0.1:0",
                                   .limits = {8, 64, 256},
                                   .settle_ns = 50 * MS,
                                   .device = "softnic",
                                   .say = say};
    (void)state;
    said[0] = 0;
    assert_int_equal(fleet_loop_create(&rig_loop), 0);
    o.loop = rig_loop;
    assert_int_equal(fleet_control_open(&o, &control), 0);
    snprintf(rig_address, sizeof(rig_address), "127.0.0.1:%u", fleet_control_port(control));
    fleet_control_lead(control, 7);
    assert_int_equal(fleet_pipes_open("softnic", &pipes), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fleet_control_close(control);
    fleet_loop_destroy(rig_loop);
    fleet_pipes_close(pipes);
    return 0;
}

/* The metric of that way. */
static uint64_t told(const char *way)
{
    struct gw_text out = {0};
    char name[64];
    snprintf(name, sizeof(name), "\ngpuwire_fleet_telemetry_total{way=\"%s\"} ", way);
    fleet_control_metrics(control, &out);
    const char *at = strstr(out.at, name);
    assert_non_null(at);
    uint64_t n = strtoull(at + strlen(name), NULL, 10);
    free(out.at);
    return n;
}

/* ---- a worker as it is */

struct whole {
    struct fleet_zoo *zoo;
    struct fleet_agent *agent;
};

static void whole_begin(struct whole *w)
{
    struct fleet_engine *engine;
    assert_int_equal(fleet_zoo_create(4, &rig_profile, &w->zoo), 0);
    struct fleet_emulated_opts e = {.loop = rig_loop,
                                    .zoo = w->zoo,
                                    .gpu_pages = 8,
                                    .host_pages = 64,
                                    .slots = 64,
                                    .leases = 64,
                                    .seed = 1};
    assert_int_equal(fleet_emulated_create(&e, &engine), 0);
    struct fleet_agent_opts a = {.loop = rig_loop,
                                 .engine = engine,
                                 .fleet = "test",
                                 .name = "w1",
                                 .listen = "127.0.0.1:0",
                                 .controllers = rig_address,
                                 .pipes = pipes,
                                 .say = say};
    assert_int_equal(fleet_agent_create(&a, &w->agent), 0);
}

static void whole_end(struct whole *w)
{
    fleet_agent_destroy(w->agent);
    rig_run(5);
    fleet_zoo_destroy(w->zoo);
}

static void test_arrives(void **state)
{
    struct whole w;
    (void)state;
    whole_begin(&w);
    RIG_UNTIL(told("rdma") >= 3);
    uint64_t sent = told("tcp"), written = told("rdma");
    RIG_UNTIL(told("rdma") >= written + 3);
    assert_int_equal(told("tcp"), sent);
    assert_true(control->workers[0]->told_last.told_at > 0);
    whole_end(&w);
}

/* The controller's end goes: the worker's writes fail, and it goes on over TCP. */
static void test_dies(void **state)
{
    struct whole w;
    (void)state;
    whole_begin(&w);
    RIG_UNTIL(told("rdma") >= 3);
    ctl_target_end(control->workers[0]);
    uint64_t written = told("rdma"), sent = told("tcp");
    RIG_UNTIL(told("tcp") >= sent + 3);
    assert_int_equal(told("rdma"), written);
    assert_non_null(strstr(said, "worker w1: sends its telemetry over TCP: "));
    whole_end(&w);
}

/* Another leader, or the same again: the worker gets other memory. */
static void test_comes_again(void **state)
{
    struct whole w;
    (void)state;
    whole_begin(&w);
    for (uint64_t term = 8; term < 11; term++) {
        uint64_t written = told("rdma");
        RIG_UNTIL(told("rdma") >= written + 3);
        fleet_control_lead(control, term);
    }
    whole_end(&w);
}

/* ---- a worker of the rig, which writes what a test says */

static struct rig_worker worker;
static struct fleet_pipe *pipe_of;

static struct fleet_telemetry *record(void)
{
    return fleet_pipe_memory(pipe_of);
}

static void writer_begin(void)
{
    struct fleet_target own;
    rig_worker_dial(&worker, "w1", 2);
    RIG_UNTIL(worker.target.addr);
    assert_int_equal(worker.target.bytes, FLEET_RECORD);
    pipe_of = fleet_pipe_make(pipes, FLEET_RECORD, false);
    RIG_UNTIL(fleet_pipe_state(pipe_of) == FLEET_PIPE_MADE);
    fleet_pipe_connect(pipe_of, &worker.target.at);
    RIG_UNTIL(fleet_pipe_state(pipe_of) == FLEET_PIPE_OPEN);
    fleet_pipe_target(pipe_of, &own);
    assert_int_equal(fleet_send(worker.conn, FLEET_TARGETED, 0, &own.at, sizeof(own.at), NULL, 0, NULL), 0);
    RIG_UNTIL(worker.targeted);
}

static void writer_end(void)
{
    fleet_pipe_end(pipe_of);
    if (worker.conn) fleet_conn_close(worker.conn, 0, NULL);
    rig_run(50);
}

static void write_record(uint64_t seq)
{
    record()->seq = record()->seq_again = seq;
    assert_int_equal(fleet_record_write(pipe_of, &worker.target), 0);
    RIG_UNTIL(!fleet_pipe_busy(pipe_of));
}

static void write_part(uint32_t from, uint32_t bytes)
{
    assert_int_equal(fleet_pipe_write(pipe_of, &worker.target, from, bytes), 0);
    RIG_UNTIL(!fleet_pipe_busy(pipe_of));
}

static void test_nonsense(void **state)
{
    (void)state;
    for (int lie = 0; lie < 5; lie++) {
        writer_begin();
        struct fleet_telemetry_model *m = (void *)(record() + 1);
        uint64_t before = told("rdma");
        record()->answered = 10;
        record()->models = 1;
        m->requests = 10;
        write_record(1);
        RIG_UNTIL(told("rdma") == before + 1);
        if (lie == 1) record()->answered = 5;
        if (lie == 2) record()->told_at = -1;
        if (lie == 3) m->model = 2;
        if (lie == 4) m->p99_ns[4] = -1;
        write_record(2);
        if (lie) {
            RIG_UNTIL(worker.cut);
            assert_non_null(strstr(worker.why, "telemetry"));
            assert_int_equal(told("rdma"), before + 1);
        } else {
            RIG_UNTIL(told("rdma") == before + 2);
            assert_int_equal(worker.cut, 0);
        }
        writer_end();
    }
}

/* One number without the other, both without the rest, or more models than there is room for. */
static void test_torn(void **state)
{
    const uint32_t seq = sizeof(uint64_t);
    (void)state;
    writer_begin();
    uint64_t before = told("rdma");
    record()->answered = 10;
    write_record(1);
    RIG_UNTIL(told("rdma") == before + 1);
    record()->seq = record()->seq_again = 2;
    record()->answered = 20;
    write_part(0, seq);
    rig_run(50);
    write_part(seq, seq);
    rig_run(50);
    assert_int_equal(told("rdma"), before + 1);
    record()->models = UINT32_MAX;
    write_part(offsetof(struct fleet_telemetry, models), sizeof(uint32_t));
    rig_run(50);
    assert_int_equal(told("rdma"), before + 1);
    assert_int_equal(worker.cut, 0);
    record()->models = 0;
    write_record(2);
    RIG_UNTIL(told("rdma") == before + 2);
    assert_int_equal(control->workers[0]->told_last.answered, 20);
    writer_end();
}

/* A worker can write its own record alone: its keys open nothing else. */
static void test_foreign_memory(void **state)
{
    static struct rig_worker other;
    (void)state;
    rig_worker_dial(&other, "w2", 2);
    RIG_UNTIL(other.target.addr);
    writer_begin();
    record()->seq = record()->seq_again = 1;
    assert_int_equal(fleet_record_write(pipe_of, &other.target), 0);
    RIG_UNTIL(fleet_pipe_busy(pipe_of) < 0);
    rig_run(30);
    assert_int_equal(told("rdma"), 0);
    writer_end();
    fleet_conn_close(other.conn, 0, NULL);
}

/* An endpoint that no queue pair has, and one that comes a second time. */
static void test_odd_endpoints(void **state)
{
    struct fleet_endpoint e = {.qpn = 1 << 30, .mtu = 77};
    (void)state;
    rig_worker_dial(&worker, "w1", 2);
    RIG_UNTIL(worker.target.addr);
    fleet_send(worker.conn, FLEET_TARGETED, 0, &e, sizeof(e), NULL, 0, NULL);
    RIG_UNTIL(strstr(said, "worker w1 tells over TCP: "));
    assert_int_equal(worker.cut, 0);
    fleet_conn_close(worker.conn, 0, NULL);
    rig_run(30);
    writer_begin();
    fleet_send(worker.conn, FLEET_TARGETED, 0, &e, sizeof(e), NULL, 0, NULL);
    RIG_UNTIL(worker.cut);
    writer_end();
}

int main(int argc, char **argv)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {TEST(test_arrives),      TEST(test_dies), TEST(test_comes_again),
                                       TEST(test_nonsense),     TEST(test_torn), TEST(test_foreign_memory),
                                       TEST(test_odd_endpoints)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
