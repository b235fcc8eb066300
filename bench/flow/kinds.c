/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/flow/table.h"

const struct flow_kind *const flow_kinds[] = {
    &flow_ours,
#ifdef FLOW_RTE
    &flow_rte,
#endif
#ifdef FLOW_MAPS
    &flow_cuckoo,
#endif
    &flow_chain,
#ifdef FLOW_MAPS
    &flow_stl,
#endif
    0,
};
