/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of connection management that do not agree end the program, where assertions are checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#ifdef GW_ASSERTS

#include "tests/cm/pair.h"
#include "tests/exec/dies.h"

struct broken {
    void (*way)(struct cm_id *id);
    const char *file, *expression;
};

static void no_lock(struct cm_id *id)
{
    pthread_mutex_unlock(&id->cm->lock);
    cm_deadline(id, 0);
}

static void another_handle(struct cm_id *id)
{
    id->handle++;
    cm_check(id->cm);
}

static void found_elsewhere(struct cm_id *id)
{
    id->local_id ^= 1;
    cm_check(id->cm);
}

static void deadline_missed(struct cm_id *id)
{
    id->deadline = 0;
    cm_check(id->cm);
}

static void port_without_user(struct cm_id *id)
{
    sn_entry(id->cm->ports.next, struct cm_port, link)->users--;
    cm_check(id->cm);
}

static void uncounted_event(struct cm_id *id)
{
    struct rdma_ucm_event_resp e;

    cm_tell(id, CM_EVENT_ADDR_CHANGE, 0);
    id->file->event_count = 0;
    cm_event_take(id->file, &e);
}

static const struct broken ways[] = {
    {no_lock, "cm/message.c:", "this thread holds &cm->lock"},
    {another_handle, "cm/check.c:", "id->handle == i + 1"},
    {found_elsewhere, "cm/check.c:", "cm->conns[id->local_id & (CM_MAX_IDS - 1)] == id"},
    {deadline_missed, "cm/check.c:", "id->deadline >= cm->next"},
    {port_without_user, "cm/check.c:", "with_port == users"},
    {uncounted_event, "cm/event.c:", "file->event_count > 0"},
};

static struct pair p;

/* In a child, whose one thread has another number: it takes the locks again. */
static void break_it(void *arg)
{
    const struct broken *b = arg;

    for (unsigned i = 0; i < NET_ENDS; i++) {
        pthread_mutex_unlock(&net.ends[i].cm.lock);
        pthread_mutex_lock(&net.ends[i].cm.lock);
        cm_check(&net.ends[i].cm);
    }
    b->way(p.server);
}

static void each_is_seen(void **state)
{
    (void)state;
    net_up(&net, 1, 0);
    p = connect_pair(&net);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (!dies_of(break_it, (void *)&ways[i], ways[i].file, ways[i].expression))
            fail_msg("way %zu is not seen: %s", i, ways[i].expression);
    net_down(&net);
}

#else

static void each_is_seen(void **state)
{
    (void)state;
    skip(); /* this build checks nothing */
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_seen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
