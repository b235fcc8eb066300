/* SPDX-License-Identifier: Apache-2.0 */
/* The options of an id that programs may set. */
#include <errno.h>
#include <string.h>

#include "softnic/cm/core.h"

enum { TIMEOUT_LIMIT = 32 };

static int set_id_option(struct cm_id *id, uint32_t name, const uint8_t *value, uint32_t len)
{
    int flag;

    switch (name) {
    case RDMA_OPTION_ID_TOS:
        if (len != 1) return -EINVAL;
        id->tos = value[0];
        return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
        if (len != 1 || value[0] >= TIMEOUT_LIMIT) return -EINVAL;
        id->has_lifetime = value[0] != 0;
        id->lifetime = value[0] ? (uint8_t)(value[0] - 1) : 0;
        return 0;
    case RDMA_OPTION_ID_REUSEADDR:
    case RDMA_OPTION_ID_AFONLY:
        if (len != sizeof(flag)) return -EINVAL;
        memcpy(&flag, value, sizeof(flag));
        if (id->state != CM_IDLE && (id->state != CM_BOUND || name == RDMA_OPTION_ID_AFONLY)) return -EINVAL;
        if (name == RDMA_OPTION_ID_REUSEADDR)
            id->reuse = flag != 0;
        else
            id->afonly = flag != 0;
        return 0;
    default: return -ENOSYS;
    }
}

int cm_set_option(struct cm_id *id, uint32_t level, uint32_t name, const uint8_t *value, uint32_t len)
{
    if (level == RDMA_OPTION_ID) return set_id_option(id, name, value, len);
    if (level != RDMA_OPTION_IB || name != RDMA_OPTION_IB_PATH) return -ENOSYS;
    /* On Ethernet there is one path, and it is known. */
    return len && len % sizeof(struct ib_path_rec_data) == 0 ? cm_resolve_route(id) : -EINVAL;
}
