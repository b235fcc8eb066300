/* SPDX-License-Identifier: Apache-2.0 */
/* The port's GID table, whole or entry by entry. */
#include <errno.h>
#include <net/if.h>
#include <string.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include "softnic/mem/usercopy.h"
#include "softnic/sysfs/tree.h"
#include "softnic/uverbs/attrs.h"
#include "softnic/uverbs/object.h"
#include "softnic/uverbs/uverbs.h"

/* 0, or -ENODATA: it is empty. */
static int gid_entry(const struct sn_tree_info *info, uint32_t index, struct ib_uverbs_gid_entry *e)
{
    static const uint8_t empty[16];
    const struct sn_tree_gid *g = &info->table[index];

    if (!memcmp(g->gid, empty, sizeof(empty))) return -ENODATA;
    *e = (struct ib_uverbs_gid_entry){.gid_index = index,
                                      .port_num = 1,
                                      .gid_type =
                                          g->v1 ? IB_UVERBS_GID_TYPE_ROCE_V1 : IB_UVERBS_GID_TYPE_ROCE_V2,
                                      .netdev_ifindex = g->ndev[0] ? if_nametoindex(g->ndev) : 0};
    memcpy(e->gid, g->gid, sizeof(e->gid));
    return 0;
}

int uv_query_gid_entry(struct uv_file *f, const struct uv_request *r)
{
    struct ib_uverbs_gid_entry e;
    struct sn_tree_info info;
    uint32_t index = 0, port = 0, flags = 0;
    int err = uv_attr_in(r, UVERBS_ATTR_QUERY_GID_ENTRY_PORT, &port, sizeof(port));

    if (!err) err = uv_attr_in(r, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, &index, sizeof(index));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, &flags, sizeof(flags));
    if (!err) err = uv_describe(f->index, &info);
    if (err || port != 1 || flags || index >= info.gids) return -EINVAL;
    err = gid_entry(&info, index, &e);
    return err ? err : uv_attr_out(r, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &e, sizeof(e));
}

/* Entries that are not empty, each in the caller's room for one. */
int uv_query_gid_table(struct uv_file *f, const struct uv_request *r)
{
    const struct ib_uverbs_attr *out = uv_attr(r, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
    struct ib_uverbs_gid_entry e;
    struct sn_tree_info info;
    uint64_t size = 0, n = 0;
    uint32_t flags = 0;
    int err = uv_attr_in(r, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, &size, sizeof(size));

    if (!err) err = uv_attr_in(r, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, &flags, sizeof(flags));
    if (!err) err = uv_describe(f->index, &info);
    if (err || flags || !size || !out || out->len < size) return -EINVAL;
    for (uint32_t i = 0; i < info.gids; i++) {
        if (gid_entry(&info, i, &e)) continue;
        if ((n + 1) * size > out->len) return -EINVAL;
        err = uv_copy_out(out->data + n++ * size, &e, size < sizeof(e) ? size : sizeof(e));
        if (err) return err;
    }
    err = uv_attr_filled(r, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
    return err ? err : uv_attr_out(r, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n, sizeof(n));
}
