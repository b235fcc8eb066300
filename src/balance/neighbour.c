/* SPDX-License-Identifier: Apache-2.0 */
#include "src/balance/neighbour.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "src/balance/balance.h"

/* Beside a MAC, which is the first six bytes of a word: there is one. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define KNOWN (UINT64_C(1) << 48)
#else
#define KNOWN UINT64_C(1)
#endif
#define AGAIN_NS  UINT64_C(200000000)   /* until an unanswered question is asked once more */
#define FRESH_NS  UINT64_C(20000000000) /* a MAC that is older is asked for again, and used meanwhile */
#define MOST_FULL (BAL_NEIGHBOURS / 4 * 3)

struct neighbour {
    _Atomic bool used; /* once set, what stands in front of the atomics does not change */
    uint8_t port;
    struct bal_addr addr;
    _Atomic uint64_t mac, told_ns, asked_ns;
};

struct bal_neighbours {
    pthread_mutex_t lock; /* of those who add entries */
    uint32_t count;
    struct neighbour entry[BAL_NEIGHBOURS];
};

struct bal_neighbours *bal_neighbours_new(void)
{
    struct bal_neighbours *n = calloc(1, sizeof(*n));
    if (n) pthread_mutex_init(&n->lock, NULL);
    return n;
}

void bal_neighbours_free(struct bal_neighbours *n)
{
    if (!n) return;
    pthread_mutex_destroy(&n->lock);
    free(n);
}

static uint32_t start_of(uint8_t port, const struct bal_addr *addr)
{
    uint64_t a[2] = {0}, h;
    memcpy(a, addr->byte, addr->family == 4 ? 4 : 16);
    h = (a[0] ^ port) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ a[1]) * 0xd6e8feb86659fd93u;
    return (uint32_t)(h >> 40) % BAL_NEIGHBOURS;
}

/* The entry, or the free place where it belongs. */
static uint32_t find(const struct bal_neighbours *n, uint8_t port, const struct bal_addr *addr)
{
    uint32_t i = start_of(port, addr);
    /* acquire: an entry that is seen to be used is seen with its address. There is always a free one. */
    while (atomic_load_explicit(&n->entry[i].used, memory_order_acquire) &&
           (n->entry[i].port != port || !bal_same_addr(&n->entry[i].addr, addr)))
        i = (i + 1) % BAL_NEIGHBOURS;
    return i;
}

static bool is_used(const struct bal_neighbours *n, uint32_t i)
{
    return atomic_load_explicit(&n->entry[i].used, memory_order_acquire);
}

uint32_t bal_neighbour(struct bal_neighbours *n, uint8_t port, const struct bal_addr *addr)
{
    uint32_t i = find(n, port, addr);
    if (is_used(n, i)) return i;
    pthread_mutex_lock(&n->lock);
    i = find(n, port, addr);
    if (!is_used(n, i) && n->count >= MOST_FULL) {
        i = BAL_NO_NEIGHBOUR;
    } else if (!is_used(n, i)) {
        n->count++;
        n->entry[i].port = port;
        n->entry[i].addr = *addr;
        /* release: its address is written before it is seen to be used */
        atomic_store_explicit(&n->entry[i].used, true, memory_order_release);
    }
    pthread_mutex_unlock(&n->lock);
    return i;
}

bool bal_neighbour_mac(const struct bal_neighbours *n, uint32_t entry, uint8_t mac[6])
{
    if (entry == BAL_NO_NEIGHBOUR) return false;
    /* relaxed: the MAC is in the one word */
    uint64_t v = atomic_load_explicit(&n->entry[entry].mac, memory_order_relaxed);
    memcpy(mac, &v, 6);
    return v & KNOWN;
}

bool bal_neighbour_ask(struct bal_neighbours *n, uint32_t entry, uint64_t now_ns)
{
    if (entry == BAL_NO_NEIGHBOUR) return false;
    struct neighbour *e = &n->entry[entry];
    uint64_t asked = atomic_load_explicit(&e->asked_ns, memory_order_relaxed);
    uint64_t told = atomic_load_explicit(&e->told_ns, memory_order_relaxed);
    bool known = atomic_load_explicit(&e->mac, memory_order_relaxed) & KNOWN;
    if (known && now_ns - told < FRESH_NS) return false;
    if (asked && now_ns - asked < AGAIN_NS) return false;
    /* relaxed: of several cores one asks; nothing else depends on it */
    return atomic_compare_exchange_strong_explicit(&e->asked_ns, &asked, now_ns | 1, memory_order_relaxed,
                                                   memory_order_relaxed);
}

void bal_neighbour_told(struct bal_neighbours *n, uint8_t port, const struct bal_addr *addr,
                        const uint8_t mac[6], uint64_t now_ns)
{
    uint32_t i = find(n, port, addr);
    uint64_t v = 0;
    if (!is_used(n, i) || mac[0] & 1) return; /* a group's MAC is nobody's */
    memcpy(&v, mac, 6);
    v |= KNOWN;
    atomic_store_explicit(&n->entry[i].told_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&n->entry[i].mac, v, memory_order_relaxed);
}

void bal_neighbour_name(const struct bal_neighbours *n, uint32_t entry, uint8_t *port, struct bal_addr *addr)
{
    *port = n->entry[entry].port;
    *addr = n->entry[entry].addr;
}
