/* SPDX-License-Identifier: Apache-2.0 */
/* How long the NIC's thread sleeps, and whether packets wake it: that depends on which other threads drive.
 */
#include <sched.h>

#include "softnic/nic/nic.h"
#include "softnic/port/port.h"
#include "softnic/runtime/thread_state.h"

/* An application thread counts as polling when it drove the NIC this often since our last look. One that
 * posts, and then waits for a change of memory, drives it two or three times per message, and needs us in
 * between.
 */
enum { POLLING_CALLS = 8 };
/* It stays one for this number of looks, since it may have lost its CPU for a moment. */
enum { POLLING_CREDIT = 2 };
/* An application that polled and yet left packets waiting is not relied on for a number of looks, which
 * doubles every time. */
#define BESIDE_NS 200000u
/* And when packets have come for such a one, which is inside: they wait no longer should it leave without a
 * look. */
#define DEAF_NS 20000u
enum { DISTRUST_MAX = 1 << 16 };
/* One that was seen polling this often in a row is distrusted half as long the next time: it did not poll
 * while it connected, say. */
enum { RELIED_ROW = 8 };
/* One that polls may stand still because we have its CPU: this is the time we allow it to show that it is
 * polling. */
#define STILL_NS 10000u
/* A thread that stops polling without saying so waits this long for us. */
#define AWAY_MAX_NS 1000000u
/* Sleeps that packets end sooner than this are not worth it; it lingers for nothing this often in a row. */
#define LINGER_NS 50000u
enum { LINGER_VAIN = 4 };
/* It was not let run since if it looked longer ago. */
enum { LOOKS_NS = 30000 };

static uint64_t thread_plan_clamp(uint64_t ns, uint64_t max)
{
    if (ns < SN_NAP_MIN_NS) return SN_NAP_MIN_NS;
    return ns > max ? max : ns;
}

bool sn_thread_kicked(const struct sn_thread *t)
{
    return __atomic_load_n(&t->kicks, __ATOMIC_RELAXED) != t->kicks_seen;
}

/* Does an application thread poll? Asked once per look. inside: it was in the engine just now. */
static bool somebody_polls(struct sn_thread *t, bool inside)
{
    uint32_t drives = __atomic_load_n(&t->drives, __ATOMIC_RELAXED);
    uint32_t calls = drives - t->drives_seen;
    bool asleep = sn_thread_kicked(t); /* or about to be, whatever it did before */

    t->drives_seen = drives;
    /* Not those of now: the look may have missed what a later one is about. go_to_sleep sees that one. */
    t->kicks_seen = t->kicks_begun;
    if (asleep) {
        t->credit = 0;
        return false;
    }
    if (calls >= POLLING_CALLS || inside) {
        t->away_ns = thread_plan_clamp(t->away_ns * 2, AWAY_MAX_NS);
        t->credit = POLLING_CREDIT;
        return true;
    }
    return t->credit && t->credit--;
}

bool sn_thread_still_polls(struct sn_thread *t)
{
    uint32_t drives = __atomic_load_n(&t->drives, __ATOMIC_RELAXED);
    uint64_t until = sn_now_ns() + STILL_NS;

    do {
        if (sn_thread_kicked(t) || __atomic_load_n(&t->stop, __ATOMIC_RELAXED)) return false;
        sched_yield();
        if (__atomic_load_n(&t->drives, __ATOMIC_RELAXED) != drives) return true;
    } while (sn_now_ns() < until);
    return false;
}

void sn_thread_relied(struct sn_thread *t)
{
    if (++t->relied % RELIED_ROW == 0 && t->distrust_next > SN_DISTRUST_MIN) t->distrust_next /= 2;
}

void sn_thread_deserted(struct sn_thread *t)
{
    t->relied = 0;
    t->distrust = t->distrust_next;
    if (t->distrust_next < DISTRUST_MAX) t->distrust_next *= 2;
    t->away_ns = 0;
    t->credit = 0;
}

static uint64_t thread_plan_nap(const struct sn_thread *t, uint64_t silence)
{
    return thread_plan_clamp(silence / SN_NAP_DIVISOR, t->unannounced ? SN_NAP_MAX_NS : SN_FIRST_NAP_NS);
}

static struct plan plan_alone(struct sn_thread *t, uint64_t now, uint64_t next)
{
    struct plan plan = {.sleep = WATCHING};
    uint64_t due = sn_port_next(t->port);
    bool distrust = t->distrust && !sn_thread_kicked(t) && t->distrust--;
    bool polls = somebody_polls(t, next == SN_CONTENDED);

    if (polls && !distrust) {
        /* It serves the timers too. Looking now and then is enough to find out when it stops. */
        plan.sleep = AWAY;
        plan.ns = t->away_ns;
        return plan;
    }
    t->away_ns = 0;
    /* Inside was one that goes to sleep: look again. One beside us looks itself before it leaves. */
    if (next == SN_CONTENDED) {
        /* To wait for sockets that have packets for it already would be no wait, and take it a CPU. */
        plan.deaf = distrust && t->heard;
        next = plan.deaf ? now + DEAF_NS : distrust ? now + BESIDE_NS : now;
    }
    t->heard = false;
    plan.ns = sn_nic_ringable(t->nic) ? thread_plan_nap(t, now - t->active_at) : SN_NEVER;
    /* Its posts are seen without us, so only packets and timers need be. */
    if (distrust && plan.ns < BESIDE_NS) plan.ns = BESIDE_NS;
    if (next < due) due = next;
    if (due != SN_NEVER) {
        uint64_t left = due > now ? due - now : 0;

        if (left < plan.ns) plan.ns = left;
    }
    if (plan.ns == SN_NEVER) plan.sleep = UNLIMITED;
    return plan;
}

struct plan sn_thread_plan(struct sn_thread *t, uint64_t now, uint64_t next)
{
    struct plan plan = plan_alone(t, now, next);

    /* Once, for those that were posted since the last look: should no more come, the next sleep is as long as
     * ever. */
    if (__atomic_exchange_n(&t->gathering, 0, __ATOMIC_RELAXED) && plan.ns > SN_GATHER_NS)
        plan = (struct plan){.sleep = plan.sleep == UNLIMITED ? WATCHING : plan.sleep, .ns = SN_GATHER_NS};
    return plan;
}

void sn_thread_woken(struct sn_thread *t, uint64_t ns)
{
    if (ns < LINGER_NS) t->linger = LINGER_VAIN;
}

bool sn_thread_linger(struct sn_thread *t)
{
    uint32_t drives = __atomic_load_n(&t->drives, __ATOMIC_RELAXED);
    uint64_t before = sn_nic_activity(t->nic), now = sn_now_ns(), until = now + LINGER_NS;

    if (!t->linger) return false;
    while (now < until && !__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
        if (sn_thread_kicked(t)) return true;
        /* To other threads that can use the CPU. */
        sched_yield();
        now = sn_now_ns();
        sn_thread_looked(t, now);
        if (sn_nic_progress(t->nic, now) == SN_CONTENDED) return false;
        if (sn_nic_activity(t->nic) != before) {
            t->linger = LINGER_VAIN;
            return true;
        }
        /* Not beside one that polls: that is to be found out as ever. */
        if (__atomic_load_n(&t->drives, __ATOMIC_RELAXED) - drives >= POLLING_CALLS) return false;
    }
    t->linger--;
    return false;
}

bool sn_thread_looks(const struct sn_thread *t, uint64_t now)
{
    uint64_t at = __atomic_load_n(&t->looked_at, __ATOMIC_RELAXED);

    return at && (int64_t)(now - at) < LOOKS_NS;
}
