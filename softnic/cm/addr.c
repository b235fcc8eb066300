/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of programs and the addresses of the NICs. A program may name "any address", an address of a NIC,
 * or a loopback address. Where no NIC has a loopback address, that means the NIC itself. So a program that
 * connects to localhost reaches it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/cm/core.h"
#include "softnic/config/addr.h"

static const uint8_t zero[16];

static bool cm_addr_is_any(const struct cm_addr *a)
{
    return !memcmp(a->gid, zero, 16) || (sn_gid_is_ipv4(a->gid) && !memcmp(a->gid + 12, zero, 4));
}

static bool cm_addr_is_loopback(const uint8_t *gid)
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

static const struct cm_nic *first_of_family(const struct cm *cm, const uint8_t *gid)
{
    for (const struct cm_nic *n = cm->nics; n < cm->nics + cm->nic_count; n++)
        if (sn_gid_is_ipv4(n->gid) == sn_gid_is_ipv4(gid)) return n;
    return NULL;
}

const struct cm_nic *cm_nic_at(const struct cm *cm, const uint8_t gid[16])
{
    GW_ASSERT_HELD(&cm->lock);
    for (const struct cm_nic *n = cm->nics; n < cm->nics + cm->nic_count; n++)
        if (!memcmp(gid, n->gid, 16)) return n;
    return NULL;
}

/* Is it a loopback address that stands for the NIC itself? */
static bool means_itself(const struct cm *cm, const struct cm_addr *a)
{
    if (!cm_addr_is_loopback(a->gid)) return false;
    for (const struct cm_nic *n = cm->nics; n < cm->nics + cm->nic_count; n++)
        if (cm_addr_is_loopback(n->gid)) return false;
    return true;
}

/* The NIC that is meant; NULL: none. */
static const struct cm_nic *nic_of(const struct cm *cm, const struct cm_addr *a)
{
    if (!means_itself(cm, a)) return cm_nic_at(cm, a->gid);
    const struct cm_nic *n = first_of_family(cm, a->gid);
    return n ? n : cm->nics;
}

int cm_bind(struct cm_id *id, const struct cm_addr *addr)
{
    int err;

    if (id->state != CM_IDLE) return -EINVAL;
    id->nic = cm_addr_is_any(addr) ? NULL : nic_of(id->cm, addr);
    if (!cm_addr_is_any(addr) && !id->nic) return -ENODEV;
    id->src = *addr;
    /* The id's address is the NIC's: peers are told it, and come back to it, from other hosts, too. */
    if (means_itself(id->cm, addr) && sn_gid_is_ipv4(id->nic->gid) == sn_gid_is_ipv4(addr->gid))
        memcpy(id->src.gid, id->nic->gid, 16);
    err = cm_port_take(id, addr->port);
    if (err) {
        id->src = (struct cm_addr){0};
        id->nic = NULL;
        return err;
    }
    id->state = CM_BOUND;
    return 0;
}

static const uint8_t *target(const struct cm *cm, const struct cm_nic *nic, const struct cm_addr *dst)
{
    return cm_addr_is_any(dst) || means_itself(cm, dst) ? nic->gid : dst->gid;
}

void cm_target(const struct cm_id *id, uint8_t gid[16])
{
    memcpy(gid, target(id->cm, id->nic, &id->dst), 16);
}

/* The NIC that a connection to this address goes through: the one that has it. Without one, it is the one
 * whose address the host would use, or the first that could. */
static const struct cm_nic *nic_towards(const struct cm *cm, const struct cm_addr *dst)
{
    const struct cm_nic *n = cm_addr_is_any(dst) ? cm->nics : nic_of(cm, dst);
    uint8_t source[16];

    if (n) return n;
    if (cm->env.source(cm->env.ctx, dst->gid, source)) n = cm_nic_at(cm, source);
    return n ? n : first_of_family(cm, dst->gid);
}

/* The address that a connection comes from. An IPv4 program on an IPv6 NIC can only be talking to itself. */
static void set_source(struct cm_id *id)
{
    const uint8_t *gid = id->nic->gid;

    if (!cm_addr_is_any(&id->src)) return;
    id->src.family = id->dst.family;
    memcpy(id->src.gid, id->dst.family == AF_INET && !sn_gid_is_ipv4(gid) ? id->dst.gid : gid, 16);
}

int cm_resolve_addr(struct cm_id *id, const struct cm_addr *src, const struct cm_addr *dst)
{
    const struct cm_nic *nic;
    int err, port;

    if (id->state == CM_IDLE && src->family) {
        if (src->port || !cm_addr_is_any(src)) {
            err = cm_bind(id, src);
            if (err) return err;
        }
    } else if (id->state != CM_IDLE && id->state != CM_BOUND) {
        return -EINVAL;
    }
    if (id->src.family && id->src.family != dst->family) return -EINVAL;
    nic = id->nic ? id->nic : nic_towards(id->cm, dst);
    if (!nic) return -ENETUNREACH;
    if (sn_gid_is_ipv4(target(id->cm, nic, dst)) != sn_gid_is_ipv4(nic->gid)) return -ENETUNREACH;
    port = id->src.port ? id->src.port : cm_port_number(id->cm, id->ps);
    if (port < 0) return port;
    id->nic = nic;
    id->dst = *dst;
    set_source(id);
    id->src.port = (uint16_t)port;
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
