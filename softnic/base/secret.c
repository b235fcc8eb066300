/* SPDX-License-Identifier: Apache-2.0 */
/* Hands out random numbers from a pool that the process fills. */
#include "softnic/base/secret.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/types.h>

enum { PAGE = 4096, POOL = PAGE - 8, FROM_POOL = 64 };

/* The kernel fills this page with zeros in a forked child: there it is empty, and no thread is inside. */
struct pool {
    int busy; /* atomic */
    uint32_t left;
    uint8_t bytes[POOL];
};
_Static_assert(sizeof(struct pool) == PAGE, "a page");

static struct pool *the_pool; /* atomic; NULL: not made yet, or it cannot be */

static int secret_fetch(uint8_t *to, size_t len)
{
    static int told; /* atomic */

    while (len) {
        ssize_t n = getrandom(to, len, 0);

        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            int err = n ? -errno : -EIO;

            if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
                fprintf(stderr,
                        "gpuwire: the system gives no random numbers (getrandom: %s): nothing that strangers "
                        "must not guess can be made; allow that system call\n",
                        strerror(-err));
            return err;
        }
        to += n;
        len -= (size_t)n;
    }
    return 0;
}

static struct pool *make_pool(void)
{
    struct pool *made = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                *other = NULL;

    if (made == MAP_FAILED) return NULL;
    /* Release: a thread that finds the page finds it marked for the kernel. */
    if (!madvise(made, PAGE, MADV_WIPEONFORK) &&
        __atomic_compare_exchange_n(&the_pool, &other, made, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        return made;
    munmap(made, PAGE);
    return other;
}

/* The pool is the caller's. Bytes that were handed out are erased here. */
static int secret_draw(struct pool *p, void *to, uint32_t len)
{
    if (p->left < len) {
        int err = secret_fetch(p->bytes, sizeof(p->bytes));

        if (err) return err;
        p->left = sizeof(p->bytes);
    }
    p->left -= len;
    memcpy(to, p->bytes + p->left, len);
    explicit_bzero(p->bytes + p->left, len);
    return 0;
}

int sn_secret(void *to, size_t len)
{
    struct pool *p = __atomic_load_n(&the_pool, __ATOMIC_ACQUIRE); /* pairs with the release in make_pool */
    int err;

    if (!p) p = make_pool();
    /* Acquire: what its last user left is seen. A thread that finds it busy asks the kernel alone. */
    if (!p || len > FROM_POOL || __atomic_exchange_n(&p->busy, 1, __ATOMIC_ACQUIRE))
        return secret_fetch(to, len);
    err = secret_draw(p, to, (uint32_t)len);
    __atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE); /* after the last access to the pool */
    return err;
}
