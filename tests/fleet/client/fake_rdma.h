/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's end of sessions over RDMA, for tests: a thread that answers each request with its input. */
#ifndef GW_TESTS_FLEET_FAKE_RDMA_H
#define GW_TESTS_FLEET_FAKE_RDMA_H

#include "tests/fleet/client/fake.h"

/* From now on these are set by the test. */
extern atomic_int fake_rdma_status;  /* of answers */
extern atomic_int fake_rdma_lie;     /* enum fake_lie */
extern atomic_uint fake_rdma_served; /* requests */
extern atomic_uint fake_rdma_bad;    /* requests whose header is not as it should be */

/* For fake_worker.open. */
void fake_rdma_open(struct fake_worker *w, struct fleet_conn *c, const struct fleet_frame *f,
                    const struct fleet_open *o);
/* Ends all sessions. */
void fake_rdma_end(void);

#endif
