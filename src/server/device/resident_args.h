/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of the kernel that serves small models. */
#ifndef GW_SERVER_DEVICE_RESIDENT_ARGS_H
#define GW_SERVER_DEVICE_RESIDENT_ARGS_H

#include "src/model/kernels/program.h"
#include "src/server/device/shared.h"

/* Its own words, in the executor's memory. */
struct gw_resident_work {
    uint32_t runs;  /* 1: there is a batch, for a program */
    uint32_t again; /* 1: it has had a batch since it was launched */
};

struct gw_resident_args {
    struct gw_serve_args serve;
    struct gwm_program program[GW_SERVE_VARIANTS]; /* of each batch size; `ops` is 0: it has a graph */
    struct gw_resident_work *here;
    struct gwm_meeting *meeting;
};

#endif
