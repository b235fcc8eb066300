/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC's lock, its random numbers, and its counters, which other threads read. */
#include <gpuwire/detail/held.h>

#include "softnic/object/nic.h"

uint64_t sn_random(struct sn_nic *nic)
{
    uint64_t z = nic->rnd += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int sn_secret_below(struct sn_nic *nic, uint32_t n, uint32_t *out)
{
    uint64_t number;
    int err = 0;

    GW_ASSERT_HELD(&nic->lock);
    if (nic->cfg.secret)
        err = nic->cfg.secret(&number, sizeof(number));
    else
        number = sn_random(nic);
    if (!err) *out = (uint32_t)((number >> 32) * n >> 32);
    return err;
}

void sn_nic_lock(struct sn_nic *nic)
{
    pthread_mutex_lock(&nic->lock);
}

bool sn_nic_trylock(struct sn_nic *nic)
{
    return pthread_mutex_trylock(&nic->lock) == 0;
}

void sn_nic_unlock(struct sn_nic *nic)
{
    pthread_mutex_unlock(&nic->lock);
}

unsigned sn_nic_ringable(const struct sn_nic *nic)
{
    return __atomic_load_n(&nic->ringable, __ATOMIC_RELAXED);
}

uint64_t sn_nic_activity(const struct sn_nic *nic)
{
    return __atomic_load_n(&nic->activity, __ATOMIC_RELAXED);
}

void sn_activity(struct sn_nic *nic)
{
    sn_count(&nic->activity, 1);
}

void sn_nic_counters(const struct sn_nic *nic, struct sn_counters *out)
{
    const uint64_t *from = (const uint64_t *)&nic->count;
    uint64_t *to = (uint64_t *)out;

    for (size_t i = 0; i < sizeof(*out) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}
