/* SPDX-License-Identifier: Apache-2.0 */
/* Built without CUDA: there is nothing to measure. */
#include "src/model/gpu/timer.h"

struct gwm_timer *gwm_timer_open(struct gw_exec *exec, size_t most)
{
    (void)exec;
    (void)most;
    return NULL;
}

void gwm_timer_close(struct gwm_timer *t)
{
    (void)t;
}

void gwm_timer_machine(const struct gwm_timer *t, char *text, size_t size)
{
    (void)t;
    if (size) *text = '\0';
}

float gwm_timer_nodes(struct gwm_timer *t, struct gwm_gpu *p, int first)
{
    (void)t;
    (void)p;
    (void)first;
    return -1;
}

float gwm_timer_plan(struct gwm_timer *t, struct gwm_gpu *p)
{
    (void)t;
    (void)p;
    return -1;
}

float gwm_timer_one(struct gwm_timer *t, struct gwm_gpu *p, int number)
{
    (void)t;
    (void)p;
    (void)number;
    return -1;
}

const char *gwm_timer_why(const struct gwm_timer *t)
{
    (void)t;
    return "built without CUDA";
}
