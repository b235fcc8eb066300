/* SPDX-License-Identifier: Apache-2.0 */
/* The path between two addresses, and the check of a frame's ICRC. */
#include "softnic/nic/frame.h"

#include <string.h>

#include "softnic/base/gid.h"
#include "src/roce/hdr.h"

struct roce_path sn_path_between(const uint8_t src[16], const uint8_t dst[16])
{
    bool v4 = sn_gid_is_ipv4(src) && sn_gid_is_ipv4(dst);
    struct roce_path path = {.ipv6 = !v4, .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF};

    memcpy(path.src, src + (v4 ? 12 : 0), v4 ? 4 : 16);
    memcpy(path.dst, dst + (v4 ? 12 : 0), v4 ? 4 : 16);
    return path;
}

bool sn_frame_icrc_ok(const struct sn_frame *f)
{
    struct roce_path path = sn_path_between(f->src_gid, f->dst_gid);
    uint16_t id;

    path.sport = f->sport;
    if (f->has_ip_id) path.ip_id = f->ip_id;
    if (roce_icrc_ok(&path, f->data, f->len)) return true;
    return !path.ipv6 && !f->has_ip_id && roce_icrc_match_ipv4_any_id(&path, f->data, f->len, &id);
}
