/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of programs and the address of the NIC. A program may say "any address", the NIC's own, or a
 * loopback address: where the NIC has another address, that means the NIC itself, so that what is told to
 * connect to localhost does.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "softnic/cm/core.h"
#include "softnic/wire/addr.h"

static const uint8_t zero[16];

static bool is_any(const struct cm_addr *a)
{
    return !memcmp(a->gid, zero, 16) || (sn_gid_is_ipv4(a->gid) && !memcmp(a->gid + 12, zero, 4));
}

static bool is_loopback(const uint8_t *gid)
{
    return sn_gid_is_ipv4(gid) ? gid[12] == 127 : !memcmp(gid, zero, 15) && gid[15] == 1;
}

int cm_addr_in(struct cm_addr *a, const void *sa, size_t len)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    uint16_t family;

    memset(a, 0, sizeof(*a));
    if (len < sizeof(family)) return -EINVAL;
    memcpy(&family, sa, sizeof(family));
    if (family == AF_INET && len >= sizeof(v4)) {
        memcpy(&v4, sa, sizeof(v4));
        sn_gid_from_ipv4(a->gid, ntohl(v4.sin_addr.s_addr));
        a->port = ntohs(v4.sin_port);
    } else if (family == AF_INET6 && len >= sizeof(v6)) {
        memcpy(&v6, sa, sizeof(v6));
        memcpy(a->gid, &v6.sin6_addr, 16);
        a->port = ntohs(v6.sin6_port);
        a->scope = v6.sin6_scope_id;
    } else {
        return family == AF_INET || family == AF_INET6 ? -EINVAL : -EAFNOSUPPORT;
    }
    a->family = family;
    return 0;
}

size_t cm_addr_out(const struct cm_addr *a, void *sa)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(a->port), .sin6_scope_id = a->scope};

    if (a->family == AF_INET) {
        memcpy(&v4.sin_addr, a->gid + 12, 4);
        memcpy(sa, &v4, sizeof(v4));
        return sizeof(v4);
    }
    if (a->family != AF_INET6) return 0;
    memcpy(&v6.sin6_addr, a->gid, 16);
    memcpy(sa, &v6, sizeof(v6));
    return sizeof(v6);
}

/* Is it the NIC that is meant? */
static bool means_nic(const struct cm *cm, const struct cm_addr *a)
{
    return !memcmp(a->gid, cm->gid, 16) || (is_loopback(a->gid) && !is_loopback(cm->gid));
}

int cm_bind(struct cm_id *id, const struct cm_addr *addr)
{
    int err;

    if (id->state != CM_IDLE) return -EINVAL;
    if (!is_any(addr) && !means_nic(id->cm, addr)) return -ENODEV;
    id->src = *addr;
    err = cm_port_take(id, addr->port);
    if (err) {
        id->src = (struct cm_addr){0};
        return err;
    }
    id->has_device = !is_any(addr);
    id->state = CM_BOUND;
    return 0;
}

void cm_target(const struct cm_id *id, uint8_t gid[16])
{
    memcpy(gid, is_any(&id->dst) || means_nic(id->cm, &id->dst) ? id->cm->gid : id->dst.gid, 16);
}

/* The address that a connection comes from. An IPv4 program on an IPv6 NIC can only be talking to itself. */
static void set_source(struct cm_id *id)
{
    const struct cm *cm = id->cm;

    if (!is_any(&id->src)) return;
    id->src.family = id->dst.family;
    memcpy(id->src.gid, cm->gid, 16);
    if (id->dst.family == AF_INET && !sn_gid_is_ipv4(cm->gid)) memcpy(id->src.gid, id->dst.gid, 16);
}

int cm_resolve_addr(struct cm_id *id, const struct cm_addr *src, const struct cm_addr *dst)
{
    uint8_t target[16];
    int err;

    if (id->state == CM_IDLE && src->family) {
        if (src->port || !is_any(src)) {
            err = cm_bind(id, src);
            if (err) return err;
        }
    } else if (id->state != CM_IDLE && id->state != CM_BOUND) {
        return -EINVAL;
    }
    if (id->src.family && id->src.family != dst->family) return -EINVAL;
    id->dst = *dst;
    cm_target(id, target);
    if (sn_gid_is_ipv4(target) != sn_gid_is_ipv4(id->cm->gid)) return -ENETUNREACH;
    set_source(id);
    if (!id->src.port) id->src.port = cm_port_number(id->cm, id->ps);
    id->has_device = true;
    id->state = CM_ADDR_RESOLVED;
    cm_tell(id, CM_EVENT_ADDR_RESOLVED, 0);
    return 0;
}

int cm_resolve_route(struct cm_id *id)
{
    if (id->state != CM_ADDR_RESOLVED) return -EINVAL;
    id->state = CM_ROUTE_RESOLVED;
    cm_tell(id, CM_EVENT_ROUTE_RESOLVED, 0);
    return 0;
}
