/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locked memory. The kernel pins the pages of regions and queues, and refuses more than RLIMIT_MEMLOCK of
 * them. The software NIC pins none. It counts them where GPUWIRE_NIC asks it to (memlock=1), so that what a
 * process meets on a host with a small limit can be met here.
 */
#include <errno.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "softnic/uverbs/object.h"

#define PAGE_SHIFT 12

static uint64_t locked; /* pages of this process; atomic */

static bool may_lock_any(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {0};

    return !syscall(SYS_capget, &head, caps) && caps[0].effective >> CAP_IPC_LOCK & 1;
}

static bool too_many(uint64_t pages)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY) return false;
    return pages > limit.rlim_cur >> PAGE_SHIFT && !may_lock_any();
}

int uv_lock_pages(const struct uv_file *f, struct uv_object *o, uint64_t addr, uint64_t length)
{
    uint64_t pages = length ? ((addr + length - 1) >> PAGE_SHIFT) - (addr >> PAGE_SHIFT) + 1 : 0;

    GW_ASSERT_HELD(&f->lock);
    if (!f->memlock) return 0;
    /* Relaxed: nothing but the number goes by it. */
    if (too_many(__atomic_add_fetch(&locked, pages, __ATOMIC_RELAXED))) {
        __atomic_sub_fetch(&locked, pages, __ATOMIC_RELAXED);
        return -ENOMEM;
    }
    uv_unlock_pages(o);
    o->locked = pages;
    return 0;
}

void uv_unlock_pages(struct uv_object *o)
{
    __atomic_sub_fetch(&locked, o->locked, __ATOMIC_RELAXED);
    o->locked = 0;
}

void uv_locked_fork_child(void)
{
    locked = 0; /* its memory is not pinned */
}
