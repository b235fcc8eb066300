/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagram sockets over RDMA, on the host's side. A set has as many *ends* as were asked for, made once; a
 * socket gets one while it is open. The kernels' part is in gpuwire/detail/socket/datagram.h.
 */
#ifndef GW_SOCKET_RD_H
#define GW_SOCKET_RD_H

#include <gpuwire/verbs.h>

#include "src/socket/net.h"

enum {
    DATAGRAM_HOSTS = 256, /* other hosts that a set sends to, at a time */
    DATAGRAM_POSTS = 32,  /* datagrams that came by UDP, on their way to kernels */
};

struct datagram_end {
    struct gw_cq *send_cq, *recv_cq;
    struct gw_qp *qp;
    struct gw_datagram_shared_ *shared;
    struct sock *owner; /* NULL: free */
    int fd;             /* its UDP socket */
    uint32_t victim;    /* which place of a full table is next to be given to another peer */
    bool broken;        /* its queue pair could not be made new */
};

/* The host's own queue pair, by which it gives kernels what came by UDP: for them it comes like everything
 * else. */
struct datagram_post {
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_ah *self;
    uint8_t *bytes;
    uint64_t put, done;
    bool failed;
};

struct datagram_host {
    struct gw_ah *ah; /* NULL: it could not be made */
    uint8_t gid[16];
    uint64_t used; /* when, in notes that came */
};

/* A handle that cannot be found any more. */
struct datagram_leaving {
    struct gw_ah *ah;
    uint64_t since;
};

struct gw_datagrams {
    struct datagram_end *end;
    uint32_t recvs, sends, place, most; /* as in struct gw_datagram_end_ */
    struct gw_datagram_addr self;       /* the device's address; port 0 */
    struct gw_device_info info;
    int epoll; /* of the ends' UDP sockets */
    struct datagram_host host[DATAGRAM_HOSTS];
    struct datagram_leaving leaving[DATAGRAM_HOSTS]; /* a ring */
    uint32_t hosts, leaves, went;
    uint64_t uses;
    struct datagram_post post;
    /* at the device's address, to get its removal; NULL: removed, or no socket listens yet */
    struct rdma_cm_id *id;
    bool removed;
};

/* datagram.c */
/* Before memory is made: set->datagrams, or NULL. */
int gw_datagram_create(struct gw_sockets *set);
/* Bytes of an end's buffers. */
size_t gw_datagram_buffers(const struct gw_sockets *set);
/* The ends. `kernels`: where theirs are, as the executor sees them; `shared`: the others, as it sees them and
 * as the CPU does; `at`: where their buffers begin in set->bytes. */
int gw_datagram_make(struct gw_sockets *set, struct gw_datagram_end_ *kernels,
                     struct gw_datagram_shared_ *shared, struct gw_datagram_shared_ *shared_host, size_t at);
void gw_datagram_destroy(struct gw_sockets *set);
/* From when the helper listens until it does not: the removal of the device is heard of, … */
int gw_datagram_watch(struct gw_sockets *set);
void gw_datagram_unwatch(struct gw_sockets *set);
/* … and told to the sockets. In the helper's thread. */
void gw_datagram_removed(struct gw_sockets *set);
/* A socket gets an end, or gives it back. -ESOCKTNOSUPPORT: the set has none; -EMFILE: none is free;
 * -ENETDOWN: the device was removed. */
int gw_datagram_open(struct gw_sockets *set, struct sock *k, int domain);
void gw_datagram_close(struct gw_sockets *set, struct sock *k);

/* datagram_post.c: gives the socket of `end` a datagram that came by UDP. False: it is dropped. */
int gw_datagram_post_create(struct gw_sockets *set);
void gw_datagram_post_destroy(struct gw_sockets *set);
bool gw_datagram_deliver(struct gw_sockets *set, const struct datagram_end *end,
                         const struct gw_datagram_addr *from, const uint8_t *payload, uint32_t n);

/* datagram_hosts.c: the way to the host of that address, as queue pairs of the set go there. NULL: none, or
 * too many others have been added lately. In the helper's thread. */
const struct gw_ah_handle *gw_datagram_way_to(struct gw_sockets *set, const struct gw_datagram_addr *a);
void gw_datagram_hosts_destroy(struct gw_datagrams *datagrams);

/* datagram_udp.c: what kernels ask of such a socket. */
int gw_datagram_answer(struct gw_sockets *set, struct sock *k, const struct gw_sock_ask_ *ask);
/* Takes in what came by UDP; whether there was anything. */
bool gw_datagram_udp(struct gw_sockets *set);

#endif
