/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel makes all calls, without the host. */
#include "tests/collective/kernels.h"
#include "tests/collective/peer.h"

#define N      3001u
#define ROUNDS 20u

int check_kernels(struct peer *p)
{
    struct gw_mem result;
    struct step_args a = {.comm = gw_comm_handle(p->comm), .n = N, .rounds = ROUNDS};
    uint32_t blocks = gw_comm_blocks(p->comm);
    float got[N], want;

    TRY(gw_mem_alloc(p->exec, GW_MEM_HOST, blocks * sizeof(int32_t), &result) == 0);
    memset(p->want.host, 0, MOST);
    for (uint32_t i = 0; i < N; i++)
        ((float *)p->want.host)[i] = (float)(p->rank * 2); /* the mean: ranks - 1 */
    TRY(gw_copy_in(p->exec, p->recv.dev, p->want.host, N * sizeof(float)) == 0);
    a.x = p->recv.dev;
    a.y = (float *)p->send.dev;
    a.z = a.y + N * p->size;
    a.result = result.dev;
    TRY((2 * p->size * N + 16) * sizeof(float) <= MOST);
    TRY(gw_launch(p->exec, &test_steps, blocks, 48, &a) == 0);
    TRY(gw_exec_sync(p->exec, gw_deadline(2 * LIMIT_NS)) == 0);
    for (uint32_t b = 0; b < blocks; b++) TRY(((int32_t *)result.host)[b] == 0);
    TRY(gw_copy_out(p->exec, got, a.x, sizeof(got)) == 0);
    want = ((float)(p->size - 1) + ROUNDS) * (float)p->size; /* all have the mean, and its sum is scattered */
    for (uint32_t i = 0; i < N; i++) TRY(got[i] == want);
    gw_mem_free(&result);
    return 0;
}
