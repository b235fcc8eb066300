/* SPDX-License-Identifier: Apache-2.0 */
/* Tables without locks: next hops of the configuration, known clients, and addresses that are asked. */
#include "src/balance/neighbour.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/assert.h>

#include "src/balance/address.h"

/* Beside a MAC, which is the first six bytes of a word: there is one. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define KNOWN (UINT64_C(1) << 48)
#else
#define KNOWN UINT64_C(1)
#endif
#define AGAIN_NS UINT64_C(200000000)    /* until an unanswered question is asked once more */
#define FRESH_NS UINT64_C(20000000000)  /* a MAC that is older is asked for again, and used in that time */
#define OLD_NS   UINT64_C(600000000000) /* a client's MAC that is older is not used */
#define QUIET_NS UINT64_C(60000000000)  /* a client that was not needed for this long makes room silently */
#define WAIT_NS  UINT64_C(3000000000)   /* how long an asked address waits for its answer */
#define USED_NS                                                                                              \
    UINT64_C(1000000000) /* a use is noted that often: each note takes the line from other cores */

/* Four generations of the configuration, each with all workers and gateways, fill half of the places. */
enum { HELD = 8 * (BAL_WORKERS + 2 * BAL_PORTS), HELD_WINDOW = 64, WINDOW = 16 };

/* The key is the address, the port and the family. It changes only while `version` is odd. */
struct neighbour {
    _Alignas(64) _Atomic uint32_t version; /* a line for each */
    uint32_t holds;                        /* of a next hop; guarded by the lock */
    _Atomic uint64_t key[3], mac, told_ns, asked_ns, used_ns;
};

struct bal_neighbours {
    pthread_mutex_t lock; /* of those who hold and release */
    uint64_t seed[2];
    _Atomic uint64_t displaced;
    struct neighbour held[HELD], known[BAL_CLIENTS_KNOWN], asked[BAL_CLIENTS_ASKED];
};

static_assert(sizeof(struct neighbour) == 64, "an entry is one line");

struct key {
    uint64_t word[3];
};

struct bal_neighbours *bal_neighbours_new(const uint64_t seed[2])
{
    struct bal_neighbours *n = aligned_alloc(64, sizeof(*n));
    if (!n) return NULL;
    memset(n, 0, sizeof(*n));
    pthread_mutex_init(&n->lock, NULL);
    n->seed[0] = seed[0];
    n->seed[1] = seed[1] | 1;
    return n;
}

void bal_neighbours_free(struct bal_neighbours *n)
{
    if (!n) return;
    pthread_mutex_destroy(&n->lock);
    free(n);
}

/* ---- entries ---- */

static struct key neighbour_key(uint8_t port, const struct bal_addr *addr)
{
    struct key k = {{0, 0, (uint64_t)addr->family << 8 | port}};
    memcpy(k.word, addr->byte, addr->family == 4 ? 4 : 16);
    return k;
}

static uint32_t neighbour_hash(const struct bal_neighbours *n, const struct key *k, uint32_t rows)
{
    uint64_t h = bal_mix(k->word[0] ^ n->seed[0], n->seed[1]);
    h = bal_mix(h ^ k->word[1], n->seed[1]);
    h = bal_mix(h ^ k->word[2], n->seed[1]);
    return (uint32_t)((h >> 32) * rows >> 32);
}

/* Its key, as it was at one time. false: it is being changed. */
static bool neighbour_read_key(const struct neighbour *e, struct key *k)
{
    /* acquire: the key is read after the version, and the version once more after the key */
    uint32_t version = atomic_load_explicit(&e->version, memory_order_acquire);
    for (int i = 0; i < 3; i++) k->word[i] = atomic_load_explicit(&e->key[i], memory_order_acquire);
    return !(version & 1) && version == atomic_load_explicit(&e->version, memory_order_relaxed);
}

static bool neighbour_is_for(const struct neighbour *e, const struct key *k)
{
    struct key mine;
    return neighbour_read_key(e, &mine) && !memcmp(&mine, k, sizeof(mine));
}

static bool neighbour_is_used(const struct neighbour *e)
{
    return atomic_load_explicit(&e->key[2], memory_order_relaxed) != 0;
}

/* One thread at a time changes an entry. A core that finds it taken does without. */
static bool neighbour_take(struct neighbour *e)
{
    uint32_t version = atomic_load_explicit(&e->version, memory_order_relaxed);
    /* acquire: what is written next is not seen before the odd version */
    return !(version & 1) &&
           atomic_compare_exchange_strong_explicit(&e->version, &version, version + 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void neighbour_give(struct neighbour *e)
{
    GW_ASSERT(atomic_load_explicit(&e->version, memory_order_relaxed) & 1); /* this thread took it */
    /* release: what was written comes before */
    atomic_fetch_add_explicit(&e->version, 1, memory_order_release);
}

/* Taken: it begins to stand for an address. */
static void neighbour_set_key(struct neighbour *e, const struct key *k)
{
    atomic_store_explicit(&e->mac, 0, memory_order_relaxed);
    atomic_store_explicit(&e->told_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&e->asked_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&e->used_ns, 0, memory_order_relaxed);
    /* release: the odd version is seen before any part of a new key */
    for (int i = 0; i < 3; i++) atomic_store_explicit(&e->key[i], k->word[i], memory_order_release);
}

static uint64_t neighbour_age(const _Atomic uint64_t *when, uint64_t now)
{
    uint64_t then = atomic_load_explicit(when, memory_order_relaxed);
    return now > then ? now - then : 0;
}

static bool neighbour_ask(struct neighbour *e, uint64_t now_ns)
{
    uint64_t asked = atomic_load_explicit(&e->asked_ns, memory_order_relaxed);
    bool known = atomic_load_explicit(&e->mac, memory_order_relaxed) & KNOWN;
    if (known && neighbour_age(&e->told_ns, now_ns) < FRESH_NS) return false;
    if (asked && neighbour_age(&e->asked_ns, now_ns) < AGAIN_NS) return false;
    /* relaxed: of several cores one asks; nothing else depends on it */
    return atomic_compare_exchange_strong_explicit(&e->asked_ns, &asked, now_ns | 1, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* Taken: it has this MAC now. */
static void neighbour_set_mac(struct neighbour *e, uint64_t mac, uint64_t now_ns)
{
    atomic_store_explicit(&e->told_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&e->mac, mac, memory_order_relaxed);
}

/* Sets the MAC of an entry if it stands for the key. */
static bool neighbour_tell(struct neighbour *e, const struct key *k, uint64_t mac, uint64_t now_ns)
{
    if (!neighbour_is_for(e, k) || !neighbour_take(e)) return false;
    uint64_t last = atomic_load_explicit(&e->key[2], memory_order_relaxed);
    bool same = last == k->word[2] && atomic_load_explicit(&e->key[0], memory_order_relaxed) == k->word[0] &&
                atomic_load_explicit(&e->key[1], memory_order_relaxed) == k->word[1];
    if (same) neighbour_set_mac(e, mac, now_ns);
    neighbour_give(e);
    return same;
}

/* ---- next hops ---- */

/* The entry of a key in its window. If there is none: NULL, and in *spare one that nothing holds. Entries
 * never leave the window, so the search may end at one that was never used. */
static struct neighbour *find_held(struct bal_neighbours *n, const struct key *k, struct neighbour **spare)
{
    uint32_t at = neighbour_hash(n, k, HELD);
    for (uint32_t i = 0; i < HELD_WINDOW; i++) {
        struct neighbour *e = &n->held[(at + i) % HELD];
        if (neighbour_is_for(e, k)) return e;
        if (spare && !*spare && !e->holds) *spare = e;
        if (!neighbour_is_used(e)) break;
    }
    return NULL;
}

uint32_t bal_neighbour_hold(struct bal_neighbours *n, uint8_t port, const struct bal_addr *addr)
{
    struct key k = neighbour_key(port, addr);
    struct neighbour *spare = NULL;
    pthread_mutex_lock(&n->lock);
    struct neighbour *e = find_held(n, &k, &spare);
    if (!e && (e = spare)) {
        while (!neighbour_take(e)) continue; /* a core tells it a MAC */
        neighbour_set_key(e, &k);
        neighbour_give(e);
    }
    if (e) e->holds++;
    pthread_mutex_unlock(&n->lock);
    return e ? (uint32_t)(e - n->held) : BAL_NO_NEIGHBOUR;
}

void bal_neighbour_release(struct bal_neighbours *n, uint32_t place)
{
    if (place == BAL_NO_NEIGHBOUR) return;
    pthread_mutex_lock(&n->lock);
    GW_ASSERT(n->held[place].holds);
    n->held[place].holds--;
    pthread_mutex_unlock(&n->lock);
}

bool bal_neighbour_mac(const struct bal_neighbours *n, uint32_t place, uint8_t mac[6])
{
    if (place == BAL_NO_NEIGHBOUR) return false;
    /* relaxed: the MAC is in the one word */
    uint64_t v = atomic_load_explicit(&n->held[place].mac, memory_order_relaxed);
    memcpy(mac, &v, 6);
    return v & KNOWN;
}

bool bal_neighbour_ask(struct bal_neighbours *n, uint32_t place, uint64_t now_ns)
{
    return place != BAL_NO_NEIGHBOUR && neighbour_ask(&n->held[place], now_ns);
}

void bal_neighbour_name(const struct bal_neighbours *n, uint32_t place, uint8_t *port, struct bal_addr *addr)
{
    struct key k = {{0}};
    neighbour_read_key(&n->held[place], &k);
    *port = (uint8_t)k.word[2];
    *addr = (struct bal_addr){.family = (uint8_t)(k.word[2] >> 8)};
    memcpy(addr->byte, k.word, 16);
}

/* ---- clients ---- */

/* A table of clients. An address lies in the window that begins at its hash. */
struct table {
    struct neighbour *entry;
    uint32_t entries;
    size_t since;  /* the time by which the oldest one makes room */
    uint64_t life; /* after it that is no loss */
};

static struct table known_of(struct bal_neighbours *n)
{
    return (struct table){n->known, BAL_CLIENTS_KNOWN, offsetof(struct neighbour, used_ns), QUIET_NS};
}
static struct table asked_of(struct bal_neighbours *n)
{
    return (struct table){n->asked, BAL_CLIENTS_ASKED, offsetof(struct neighbour, asked_ns), WAIT_NS};
}

static struct neighbour *neighbour_find(const struct bal_neighbours *n, const struct table *t,
                                        const struct key *k)
{
    uint32_t at = neighbour_hash(n, k, t->entries);
    for (uint32_t i = 0; i < WINDOW; i++) {
        struct neighbour *e = &t->entry[(at + i) % t->entries];
        if (neighbour_is_for(e, k)) return e;
        if (!neighbour_is_used(e)) break; /* places are used from the window's beginning, and stay in use */
    }
    return NULL;
}

/* The entry of a window that makes room, taken: a free one, or the oldest. */
static struct neighbour *neighbour_make_room(struct bal_neighbours *n, const struct table *t,
                                             const struct key *k, uint64_t now)
{
    uint32_t at = neighbour_hash(n, k, t->entries);
    struct neighbour *best = NULL;
    uint64_t best_age = 0;
    for (uint32_t i = 0; i < WINDOW && best_age != UINT64_MAX; i++) {
        struct neighbour *e = &t->entry[(at + i) % t->entries];
        const _Atomic uint64_t *since = (const _Atomic uint64_t *)(const void *)((const char *)e + t->since);
        uint64_t age = neighbour_is_used(e) ? neighbour_age(since, now) : UINT64_MAX;
        if (best && age <= best_age) continue;
        best_age = age;
        best = e;
    }
    if (!neighbour_take(best)) return NULL;
    /* relaxed: a count, and nothing else depends on it */
    if (best_age < t->life) atomic_fetch_add_explicit(&n->displaced, 1, memory_order_relaxed);
    return best;
}

static unsigned neighbour_wait_for(struct bal_neighbours *n, const struct key *k, uint64_t now_ns)
{
    const struct table asked = asked_of(n);
    struct neighbour *e = neighbour_find(n, &asked, k);
    if (!e && (e = neighbour_make_room(n, &asked, k, now_ns))) {
        neighbour_set_key(e, k);
        neighbour_give(e);
    }
    return e && neighbour_ask(e, now_ns) ? BAL_MAC_ASK : 0;
}

unsigned bal_client_mac(struct bal_neighbours *n, uint8_t port, const struct bal_addr *addr, uint64_t now_ns,
                        uint8_t mac[6])
{
    const struct key k = neighbour_key(port, addr);
    const struct table known = known_of(n);
    struct neighbour *e = neighbour_find(n, &known, &k);
    if (!e || neighbour_age(&e->told_ns, now_ns) > OLD_NS) return neighbour_wait_for(n, &k, now_ns);
    uint64_t v = atomic_load_explicit(&e->mac, memory_order_acquire); /* before the key is read again */
    memcpy(mac, &v, 6);
    if (!(v & KNOWN) || !neighbour_is_for(e, &k)) return 0; /* another address has taken the place just now */
    if (neighbour_age(&e->used_ns, now_ns) > USED_NS)
        atomic_store_explicit(&e->used_ns, now_ns, memory_order_relaxed);
    return BAL_MAC_KNOWN | (neighbour_ask(e, now_ns) ? BAL_MAC_ASK : 0);
}

/* An address that was asked for has answered. Its entry among the asked ones ages by itself. */
static void come_to_know(struct bal_neighbours *n, const struct key *k, uint64_t mac, uint64_t now_ns)
{
    const struct table asked = asked_of(n), known = known_of(n);
    struct neighbour *e = neighbour_find(n, &asked, k) ? neighbour_make_room(n, &known, k, now_ns) : NULL;
    if (!e) return;
    neighbour_set_key(e, k);
    atomic_store_explicit(&e->used_ns, now_ns, memory_order_relaxed);
    neighbour_set_mac(e, mac, now_ns);
    neighbour_give(e);
}

void bal_neighbour_told(struct bal_neighbours *n, uint8_t port, const struct bal_addr *addr,
                        const uint8_t mac[6], uint64_t now_ns)
{
    const struct key k = neighbour_key(port, addr);
    const struct table known = known_of(n);
    uint64_t v = 0;
    if (mac[0] & 1) return; /* a group's MAC belongs to no host */
    memcpy(&v, mac, 6);
    v |= KNOWN;
    struct neighbour *hop = find_held(n, &k, NULL), *client = neighbour_find(n, &known, &k);
    if (hop) neighbour_tell(hop, &k, v, now_ns);
    if (client)
        neighbour_tell(client, &k, v, now_ns);
    else
        come_to_know(n, &k, v, now_ns);
}

void bal_neighbours_count(const struct bal_neighbours *n, uint64_t now_ns, struct bal_neighbour_counts *out)
{
    *out = (struct bal_neighbour_counts){0};
    out->displaced = atomic_load_explicit(&n->displaced, memory_order_relaxed);
    for (uint32_t i = 0; i < BAL_CLIENTS_KNOWN; i++)
        out->known +=
            neighbour_is_used(&n->known[i]) && neighbour_age(&n->known[i].told_ns, now_ns) < QUIET_NS;
}
