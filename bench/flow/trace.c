/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/flow/table.h"

#include <sys/mman.h>

const char *const flow_sharing_name[FLOW_SHARINGS] = {"per core", "lock-free", "rwlock", "spinlock", "mutex"};
const char *const flow_deletion_name[FLOW_DELETIONS] = {"never", "wheel", "lazy", "scan", "epochs"};

struct flow_trace flow_trace_of(uint64_t flows, double churn, double packet_ns, uint64_t name)
{
    double silent = churn / packet_ns * (double)FLOW_IDLE_NS;
    uint64_t window = (double)flows > 2 * silent ? flows - (uint64_t)silent : flows / 2;
    return (struct flow_trace){.next = flows, .window = window, .churn = churn, .name = name};
}

void flow_trace_keys(struct flow_trace *t, uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        t->opened += t->churn;
        t->packet++;
        if (t->opened >= 1) {
            t->opened -= 1;
            keys[i] = flow_trace_key(t, t->next++);
        } else {
            keys[i] = flow_trace_key(t, t->next - 1 - (flow_scramble(t->packet) >> 20) % t->window);
        }
    }
}

#define HUGE_PAGE ((uint64_t)2 << 20)

void *flow_memory(uint64_t bytes)
{
    /* From a page's beginning: what is left over at either end is address space and no memory. */
    uint64_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uint8_t *p = mmap(NULL, whole + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    uint64_t skip = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (skip) munmap(p, skip);
    if (HUGE_PAGE - skip) munmap(p + skip + whole, HUGE_PAGE - skip);
    madvise(p + skip, whole, MADV_HUGEPAGE);
    return p + skip;
}

void flow_memory_free(void *p, uint64_t bytes)
{
    if (p) munmap(p, (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
}
