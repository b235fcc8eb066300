/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.h: times in buckets. */
#ifndef GW_FLEET_HISTOGRAM_H
#define GW_FLEET_HISTOGRAM_H

#include <stdint.h>

/* The bucket of a time, below SIM_BUCKETS. */
uint32_t sim_bucket(int64_t ns);

#endif
