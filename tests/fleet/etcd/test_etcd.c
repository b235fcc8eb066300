/* SPDX-License-Identifier: Apache-2.0 */
/* The client of etcd against a real one: each operation, odd bytes, leases, mirrors, many keys, a user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/fleet/etcd/lease.h"
#include "src/fleet/etcd/mirror.h"
#include "tests/fleet/etcd/rig.h"

enum { PATIENCE_MS = 30000 };

static struct rig rig;
static struct fleet_etcd *etcd;

/* ---- one call, waited for */

struct heard {
    bool is;
    int err;
    bool succeeded;
    int64_t revision, count, lease, ttl_s, mod, on_lease;
    size_t kvs, results;
    bool more;
    char value[64];
    size_t value_bytes;
};

static void hear(void *ctx, int err, const struct fleet_etcd_answer *a)
{
    struct heard *h = ctx;
    *h = (struct heard){.is = true, .err = err};
    if (err) return;
    h->succeeded = a->succeeded;
    h->revision = a->revision;
    h->lease = a->lease;
    h->ttl_s = a->ttl_s;
    h->results = a->results;
    if (!a->results) return;
    h->count = a->result->count;
    h->kvs = a->result->kvs;
    h->more = a->result->more;
    if (!a->result->kvs) return;
    const struct fleet_etcd_kv *kv = a->result->kv;
    h->mod = kv->mod;
    h->on_lease = kv->lease;
    h->value_bytes = kv->value.bytes;
    if (kv->value.bytes && kv->value.bytes <= sizeof(h->value))
        memcpy(h->value, kv->value.data, kv->value.bytes);
}

static bool was_heard(void *h)
{
    return ((struct heard *)h)->is;
}

static struct heard wait_for(struct heard *h)
{
    assert_true(rig_until(&rig, was_heard, h, PATIENCE_MS));
    return *h;
}

static struct heard do_op(struct fleet_etcd_op op)
{
    struct heard h = {0};
    const struct fleet_etcd_how how = {hear, &h, 20000000000, true};
    assert_int_equal(fleet_etcd_do(etcd, &op, &how, NULL), 0);
    return wait_for(&h);
}

static struct heard do_txn(struct fleet_etcd_txn t)
{
    struct heard h = {0};
    const struct fleet_etcd_how how = {hear, &h, 20000000000, true};
    assert_int_equal(fleet_etcd_txn(etcd, &t, &how, NULL), 0);
    return wait_for(&h);
}

#define TEXT(s) ((struct fleet_etcd_bytes){s, sizeof(s) - 1})

static struct heard put(struct fleet_etcd_bytes key, struct fleet_etcd_bytes value)
{
    return do_op((struct fleet_etcd_op){.what = FLEET_ETCD_PUT, .key = key, .value = value});
}

static struct heard get(struct fleet_etcd_bytes key)
{
    return do_op((struct fleet_etcd_op){.what = FLEET_ETCD_GET, .key = key});
}

/* ---- tests */

static void test_keys(void **state)
{
    (void)state;
    struct heard h = put(TEXT("a"), TEXT("one"));
    assert_int_equal(h.err, 0);
    int64_t revision = h.revision;
    assert_true(revision > 0);
    h = get(TEXT("a"));
    assert_int_equal(h.kvs, 1);
    assert_memory_equal(h.value, "one", 3);
    assert_int_equal(h.mod, revision);
    put(TEXT("b"), TEXT("two"));
    put(TEXT("c"), TEXT("three"));
    h = do_op((struct fleet_etcd_op){.what = FLEET_ETCD_GET, .key = TEXT("a"), .end = TEXT("d"), .limit = 2});
    assert_int_equal(h.kvs, 2);
    assert_int_equal(h.count, 3);
    assert_true(h.more);
    /* As it was. */
    put(TEXT("a"), TEXT("four"));
    h = do_op((struct fleet_etcd_op){.what = FLEET_ETCD_GET, .key = TEXT("a"), .revision = revision});
    assert_memory_equal(h.value, "one", 3);
    h = do_op((struct fleet_etcd_op){.what = FLEET_ETCD_DELETE, .key = TEXT("a"), .end = TEXT("c")});
    assert_int_equal(h.count, 2);
    assert_int_equal(get(TEXT("a")).kvs, 0);
    assert_int_equal(get(TEXT("c")).kvs, 1);
    h = do_op((struct fleet_etcd_op){.what = FLEET_ETCD_GET, .key = TEXT("a"), .revision = 1000000});
    assert_int_equal(h.err, -ERANGE);
    assert_non_null(strstr(gw_last_error(), "future"));
    h = put(TEXT(""), TEXT("x"));
    assert_int_equal(h.err, -EINVAL);
}

static void test_bytes(void **state)
{
    (void)state;
    static const char odd[] = "\0\xff\n%/\"\\\x80\0";
    struct fleet_etcd_bytes key = {odd, sizeof(odd)}, empty = {"", 0};
    uint8_t end[sizeof(odd)];
    assert_int_equal(put(key, key).err, 0);
    struct heard h = get(key);
    assert_int_equal(h.value_bytes, sizeof(odd));
    assert_memory_equal(h.value, odd, sizeof(odd));
    assert_int_equal(put(key, empty).err, 0);
    h = get(key);
    assert_int_equal(h.kvs, 1);
    assert_int_equal(h.value_bytes, 0);
    h = do_op((struct fleet_etcd_op){
        .what = FLEET_ETCD_DELETE, .key = key, .end = fleet_etcd_prefix_end(key, end)});
    assert_int_equal(h.count, 1);
    /* Prefixes without an upper end. */
    struct fleet_etcd_bytes top = TEXT("\xff\xff");
    struct fleet_etcd_bytes after = fleet_etcd_prefix_end(top, end);
    assert_int_equal(after.bytes, 1);
    assert_int_equal(*(const char *)after.data, 0);
    after = fleet_etcd_prefix_end(TEXT("a\xff"), end);
    assert_true(fleet_etcd_equal(after, TEXT("b")));
    /* A value of 1 MiB is no trouble, one of 3 MiB is too large for etcd. */
    char *large = calloc(1, 3 << 20);
    assert_int_equal(put(TEXT("large"), (struct fleet_etcd_bytes){large, 1 << 20}).err, 0);
    assert_int_equal(get(TEXT("large")).value_bytes, 1 << 20);
    assert_int_not_equal(put(TEXT("large"), (struct fleet_etcd_bytes){large, 3 << 20}).err, 0);
    assert_int_equal(do_op((struct fleet_etcd_op){.what = FLEET_ETCD_DELETE, .key = TEXT("large")}).count, 1);
    free(large);
}

static void test_txn(void **state)
{
    (void)state;
    const struct fleet_etcd_op then = {.what = FLEET_ETCD_PUT, .key = TEXT("t"), .value = TEXT("x")};
    const struct fleet_etcd_op otherwise = {.what = FLEET_ETCD_GET, .key = TEXT("t")};
    struct fleet_etcd_compare c = {.key = TEXT("t"), .target = FLEET_ETCD_CREATE, .is = FLEET_ETCD_EQUAL};
    const struct fleet_etcd_txn t = {&c, 1, &then, &otherwise, 1, 1};
    struct heard h = do_txn(t);
    assert_true(h.succeeded);
    int64_t created = h.revision;
    h = do_txn(t);
    assert_false(h.succeeded);
    assert_int_equal(h.kvs, 1);
    c.number = created;
    assert_true(do_txn(t).succeeded);
    c.target = FLEET_ETCD_VERSION;
    c.number = 2;
    assert_true(do_txn(t).succeeded);
    c.is = FLEET_ETCD_GREATER;
    assert_true(do_txn(t).succeeded);
    c.is = FLEET_ETCD_LESS;
    assert_false(do_txn(t).succeeded);
    c.target = FLEET_ETCD_MOD;
    c.number = INT64_MAX;
    assert_true(do_txn(t).succeeded);
    c.target = FLEET_ETCD_LEASE;
    c.is = FLEET_ETCD_NOT_EQUAL;
    c.number = 0;
    assert_false(do_txn(t).succeeded);
    c.target = FLEET_ETCD_VALUE;
    c.is = FLEET_ETCD_EQUAL;
    c.value = TEXT("x");
    assert_true(do_txn(t).succeeded);
    c.value = TEXT("y");
    assert_false(do_txn(t).succeeded);
    /* The same key twice. */
    const struct fleet_etcd_op twice[] = {then, then};
    assert_int_equal(do_txn((struct fleet_etcd_txn){NULL, 0, twice, NULL, 2, 0}).err, -EINVAL);
}

struct lease_log {
    int granted, renewed, ended;
    int64_t id;
};

static void lease_log_granted(void *ctx, int64_t lease)
{
    struct lease_log *log = ctx;
    log->granted++;
    log->id = lease;
}
static void lease_log_renewed(void *ctx)
{
    ((struct lease_log *)ctx)->renewed++;
}
static void lease_log_ended(void *ctx, int64_t lease)
{
    struct lease_log *log = ctx;
    assert_int_equal(lease, log->id);
    log->ended++;
}
static const struct fleet_etcd_lease_handler lease_handler = {
    .granted = lease_log_granted, .renewed = lease_log_renewed, .ended = lease_log_ended};

static bool was_granted(void *log)
{
    return ((struct lease_log *)log)->granted > 0;
}
static bool was_granted_twice(void *log)
{
    return ((struct lease_log *)log)->granted > 1;
}
static bool was_renewed(void *log)
{
    return ((struct lease_log *)log)->renewed > 1;
}

static void test_lease(void **state)
{
    (void)state;
    struct lease_log log = {0};
    struct fleet_etcd_lease *l;
    char arguments[64];
    assert_int_equal(fleet_etcd_lease_open(etcd, 1, &lease_handler, &log, &l), 0);
    assert_true(rig_until(&rig, was_granted, &log, PATIENCE_MS));
    assert_true(fleet_etcd_lease_until(l) > (int64_t)gw_deadline(0));
    struct heard h = do_op(
        (struct fleet_etcd_op){.what = FLEET_ETCD_PUT, .key = TEXT("on"), .lease = fleet_etcd_lease_id(l)});
    assert_int_equal(h.err, 0);
    assert_int_equal(get(TEXT("on")).on_lease, log.id);
    /* Longer than it lives alone. */
    assert_true(rig_until(&rig, was_renewed, &log, PATIENCE_MS));
    rig_run(&rig, 1500);
    assert_int_equal(get(TEXT("on")).kvs, 1);
    assert_int_equal(log.ended, 0);
    struct heard t = {0};
    const struct fleet_etcd_how how = {hear, &t, 0, true};
    fleet_etcd_time_to_live(etcd, log.id, &how, NULL);
    wait_for(&t);
    assert_true(t.ttl_s >= 0);
    /* Taken away, it is noticed, and another one is there. */
    snprintf(arguments, sizeof(arguments), "lease revoke %llx", (unsigned long long)log.id);
    assert_int_equal(rig_ctl(&rig, arguments, NULL, 0), 0);
    assert_true(rig_until(&rig, was_granted_twice, &log, PATIENCE_MS));
    assert_int_equal(log.ended, 1);
    assert_int_equal(get(TEXT("on")).kvs, 0);
    h = do_op(
        (struct fleet_etcd_op){.what = FLEET_ETCD_PUT, .key = TEXT("on"), .lease = fleet_etcd_lease_id(l)});
    assert_int_equal(h.err, 0);
    fleet_etcd_lease_close(l);
    rig_run(&rig, 100);
    assert_int_equal(get(TEXT("on")).kvs, 0);
    h = do_op((struct fleet_etcd_op){.what = FLEET_ETCD_PUT, .key = TEXT("on"), .lease = 12345});
    assert_int_equal(h.err, -ENOENT);
}

/* ---- mirrors */

struct view {
    int begun, synced, keys; /* keys: puts less ends since it began */
    char last[64];
};

static void view_begin(void *ctx)
{
    struct view *v = ctx;
    v->begun++;
    v->keys = 0;
}
static void view_put(void *ctx, const struct fleet_etcd_kv *kv)
{
    struct view *v = ctx;
    v->keys += kv->version == 1 || v->begun != v->synced;
    snprintf(v->last, sizeof(v->last), "%.*s", (int)kv->value.bytes, (const char *)kv->value.data);
}
static void view_gone(void *ctx, struct fleet_etcd_bytes key, int64_t revision)
{
    (void)key, (void)revision;
    ((struct view *)ctx)->keys--;
}
static void view_synced(void *ctx, int64_t revision)
{
    (void)revision;
    ((struct view *)ctx)->synced++;
}
static const struct fleet_etcd_mirror_handler view_handler = {view_begin, view_put, view_gone, view_synced};

static bool view_is_synced(void *v)
{
    return ((struct view *)v)->synced > 0;
}
static bool view_is_synced_twice(void *v)
{
    return ((struct view *)v)->synced > 1;
}
static bool view_has_three(void *v)
{
    return ((struct view *)v)->keys == 3;
}
static bool view_has_two(void *v)
{
    return ((struct view *)v)->keys == 2;
}

static void test_mirror(void **state)
{
    (void)state;
    struct view v = {0};
    struct fleet_etcd_mirror *m;
    put(TEXT("m/1"), TEXT("a"));
    put(TEXT("m/2"), TEXT("b"));
    put(TEXT("n"), TEXT("no"));
    assert_int_equal(fleet_etcd_mirror_open(etcd, TEXT("m/"), true, &view_handler, &v, &m), 0);
    assert_true(rig_until(&rig, view_is_synced, &v, PATIENCE_MS));
    assert_int_equal(v.keys, 2);
    put(TEXT("m/3"), TEXT("c"));
    assert_true(rig_until(&rig, view_has_three, &v, PATIENCE_MS));
    assert_string_equal(v.last, "c");
    do_op((struct fleet_etcd_op){.what = FLEET_ETCD_DELETE, .key = TEXT("m/1")});
    assert_true(rig_until(&rig, view_has_two, &v, PATIENCE_MS));
    assert_int_equal(v.begun, 1);

    /* The connection is lost, and what came then is compacted away. The loop does not run all the time. */
    rig_kill(&rig, 0);
    assert_int_equal(rig_start(&rig, 0), 0);
    char out[4096];
    for (int i = 0; i < 400 && rig_ctl(&rig, "put m/4 d", out, sizeof(out)); i++) usleep(50000);
    assert_int_equal(rig_ctl(&rig, "put m/5 e", out, sizeof(out)), 0);
    assert_int_equal(rig_ctl(&rig, "del m/2", out, sizeof(out)), 0);
    assert_int_equal(rig_ctl(&rig, "get m/ -w fields", out, sizeof(out)), 0);
    char *at = strstr(out, "\"Revision\" : ");
    assert_non_null(at);
    char compact[64];
    snprintf(compact, sizeof(compact), "compact %lld", atoll(at + 13));
    assert_int_equal(rig_ctl(&rig, compact, out, sizeof(out)), 0);
    assert_true(rig_until(&rig, view_is_synced_twice, &v, PATIENCE_MS));
    assert_int_equal(v.keys, 3);
    assert_int_equal(v.begun, 2);
    put(TEXT("m/5"), TEXT("f"));
    rig_run(&rig, 200);
    assert_string_equal(v.last, "f");
    fleet_etcd_mirror_close(m);
}

static void count_heard(void *ctx, int err, const struct fleet_etcd_answer *a)
{
    (void)a;
    assert_int_equal(err, 0);
    ++*(int *)ctx;
}
static bool is_hundred(void *n)
{
    return *(int *)n == 100;
}

static void test_many(void **state)
{
    (void)state;
    struct view v = {0};
    struct fleet_etcd_mirror *m;
    int n = 0;
    for (int i = 0; i < 100; i++) {
        char key[100][16];
        struct fleet_etcd_op put[100];
        for (int k = 0; k < 100; k++) {
            snprintf(key[k], sizeof(key[k]), "many/%05d", 100 * i + k);
            put[k] = (struct fleet_etcd_op){
                .what = FLEET_ETCD_PUT, .key = fleet_etcd_text(key[k]), .value = TEXT("{\"where\":\"gpu\"}")};
        }
        const struct fleet_etcd_how how = {count_heard, &n, 20000000000, true};
        assert_int_equal(
            fleet_etcd_txn(etcd, &(struct fleet_etcd_txn){NULL, 0, put, NULL, 100, 0}, &how, NULL), 0);
    }
    assert_true(rig_until(&rig, is_hundred, &n, PATIENCE_MS));
    uint64_t began = gw_deadline(0);
    assert_int_equal(fleet_etcd_mirror_open(etcd, TEXT("many/"), true, &view_handler, &v, &m), 0);
    assert_true(rig_until(&rig, view_is_synced, &v, PATIENCE_MS));
    print_message("10,000 keys read in %.1f ms\n", (double)(gw_deadline(0) - began) / 1e6);
    assert_int_equal(v.keys, 10000);
    fleet_etcd_mirror_close(m);
}

static void test_cancel(void **state)
{
    (void)state;
    struct heard h = {0}, late = {0};
    struct fleet_etcd_call *call;
    const struct fleet_etcd_op op = {.what = FLEET_ETCD_GET, .key = TEXT("a")};
    const struct fleet_etcd_how how = {hear, &h, 0, true}, soon = {hear, &late, 1, true};
    assert_int_equal(fleet_etcd_do(etcd, &op, &how, &call), 0);
    fleet_etcd_cancel(call);
    assert_int_equal(fleet_etcd_do(etcd, &op, &how, &call), 0);
    rig_run(&rig, 0); /* sent, perhaps */
    if (!h.is) fleet_etcd_cancel(call);
    h.is = false;
    rig_run(&rig, 100);
    assert_false(h.is);
    assert_int_equal(fleet_etcd_do(etcd, &op, &soon, NULL), 0);
    assert_int_equal(wait_for(&late).err, -ETIMEDOUT);
    assert_non_null(strstr(gw_last_error(), "does not answer in time"));
}

static void test_urls(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "127.0.0.1:1",
                                      "http://",
                                      "http://h:0",
                                      "http://h:65536",
                                      "http://h:1/x",
                                      "http://h:1,https://h:2",
                                      "http://h:1,",
                                      "http://[::1",
                                      "ftp://h:1",
                                      "http://a b",
                                      "http://h:1x",
                                      "http://:1",
                                      "http://u@h:1"};
    struct fleet_etcd *e = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(fleet_etcd_open(rig.loop, &(struct fleet_etcd_opts){.urls = bad[i]}, &e), -EINVAL);
        assert_null(e);
    }
    assert_int_equal(
        fleet_etcd_open(rig.loop, &(struct fleet_etcd_opts){.urls = "http://[::1]:9/,http://h"}, &e), 0);
    fleet_etcd_close(e);
    fleet_etcd_close(NULL);
}

/* etcd with TLS, whose certificate must be one that we trust. */
static void test_tls(void **state)
{
    (void)state;
    char folder[] = "/tmp/gpuwire-etcd-tls.XXXXXX", command[512], cert[64], key[64];
    struct rig secret = {0};
    struct heard h = {0};
    struct fleet_etcd *e;
    assert_non_null(mkdtemp(folder));
    snprintf(cert, sizeof(cert), "%s/cert", folder);
    snprintf(key, sizeof(key), "%s/key", folder);
    snprintf(
        command, sizeof(command),
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s -out %s -days 2 "
        "-subj /CN=etcd -addext subjectAltName=IP:127.0.0.1 2>/dev/null",
        key, cert);
    assert_int_equal(system(command), 0);
    secret.secret = true;
    secret.more[0] = "--cert-file";
    secret.more[1] = cert;
    secret.more[2] = "--key-file";
    secret.more[3] = key;
    assert_int_equal(rig_open(&secret, 1), 0);
    const struct fleet_etcd_op op = {.what = FLEET_ETCD_PUT, .key = TEXT("s"), .value = TEXT("v")};
    struct fleet_etcd_how how = {hear, &h, 20000000000, true};
    struct fleet_etcd_opts opts = {.urls = secret.urls, .ca_file = cert};
    assert_int_equal(fleet_etcd_open(rig.loop, &opts, &e), 0);
    assert_int_equal(fleet_etcd_do(e, &op, &how, NULL), 0);
    if (wait_for(&h).err) fail_msg("%s", gw_last_error());
    fleet_etcd_close(e);
    opts.ca_file = NULL;
    h.is = false;
    how.deadline_ns = 500000000;
    assert_int_equal(fleet_etcd_open(rig.loop, &opts, &e), 0);
    assert_int_equal(fleet_etcd_do(e, &op, &how, NULL), 0);
    assert_int_equal(wait_for(&h).err, -ETIMEDOUT);
    assert_non_null(strstr(gw_last_error(), "self"));
    fleet_etcd_close(e);
    opts.ca_file = key;
    assert_int_equal(fleet_etcd_open(rig.loop, &opts, &e), -EACCES);
    rig_close(&secret);
    unlink(cert);
    unlink(key);
    rmdir(folder);
}

/* A user with a password, last: the others have none. */
static void test_user(void **state)
{
    (void)state;
    assert_int_equal(rig_ctl(&rig, "user add root:rootpass", NULL, 0), 0);
    assert_int_equal(rig_ctl(&rig, "user grant-role root root", NULL, 0), 0);
    assert_int_equal(rig_ctl(&rig, "auth enable", NULL, 0), 0);
    assert_int_equal(put(TEXT("u"), TEXT("v")).err, -EACCES);
    assert_non_null(strstr(gw_last_error(), "user"));
    fleet_etcd_close(etcd);
    struct fleet_etcd_opts opts = {.urls = rig.urls, .user = "root", .password = "rootpass"};
    assert_int_equal(fleet_etcd_open(rig.loop, &opts, &etcd), 0);
    struct heard first = put(TEXT("u"), TEXT("v"));
    if (first.err) fail_msg("%s", gw_last_error());
    /* After a restart etcd knows the token no more. */
    rig_kill(&rig, 0);
    assert_int_equal(rig_start(&rig, 0), 0);
    struct heard again = put(TEXT("u"), TEXT("w"));
    if (again.err) fail_msg("%s", gw_last_error());
    fleet_etcd_close(etcd);
    opts.password = "wrong";
    assert_int_equal(fleet_etcd_open(rig.loop, &opts, &etcd), 0);
    struct heard h = {0};
    const struct fleet_etcd_how how = {hear, &h, 1000000000, true};
    const struct fleet_etcd_op op = {.what = FLEET_ETCD_GET, .key = TEXT("u")};
    fleet_etcd_do(etcd, &op, &how, NULL);
    assert_int_equal(wait_for(&h).err, -ETIMEDOUT);
    assert_non_null(strstr(gw_last_error(), "authentication failed"));
}

static int set_up(void **state)
{
    (void)state;
    if (rig_open(&rig, 1)) return -1;
    return fleet_etcd_open(rig.loop, &(struct fleet_etcd_opts){.urls = rig.urls}, &etcd);
}

static int tear_down(void **state)
{
    (void)state;
    fleet_etcd_close(etcd);
    rig_close(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_urls),   cmocka_unit_test(test_keys),
                                       cmocka_unit_test(test_bytes),  cmocka_unit_test(test_txn),
                                       cmocka_unit_test(test_cancel), cmocka_unit_test(test_lease),
                                       cmocka_unit_test(test_many),   cmocka_unit_test(test_mirror),
                                       cmocka_unit_test(test_tls),    cmocka_unit_test(test_user)};
    if (!rig_has_etcd()) return 77;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
