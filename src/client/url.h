/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server is, and which door: the URLs of <gpuwire/client.h>. */
#ifndef GW_CLIENT_URL_H
#define GW_CLIENT_URL_H

enum gw_url_door { GW_URL_RDMA, GW_URL_HTTP, GW_URL_GRPC, GW_URL_FLEET };

struct gw_url {
    enum gw_url_door door;
    int encrypted;
    int etcd;        /* a fleet whose leader stands in the etcd at `authority` */
    char *base;      /* what paths are appended to: "http://worker7:8000/"; gw_url_free */
    char *authority; /* "worker7:8000"; of a fleet "host:port[,host:port]" */
    char *fleet;     /* its name; NULL: the default one */
};

/* 0; -EINVAL: not of that form. -ENOTSUP: another scheme. -ENOMEM. */
int gw_url_parse(const char *server, struct gw_url *url);
void gw_url_free(struct gw_url *url);

#endif
