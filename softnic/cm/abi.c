/* SPDX-License-Identifier: Apache-2.0 */
/* The commands, decoded. Whatever a program writes is checked here; errors are the kernel's. */
#include "softnic/cm/abi.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "softnic/cm/service.h"
#include "softnic/mem/usercopy.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { PATHS = 1 };

/* The id a command names, with the state machine locked; NULL: there is none, and nothing is locked. */
static struct cm_id *lock_id(const struct cm_call *c, uint32_t handle)
{
    struct cm *cm = cm_service();
    struct cm_id *id;

    pthread_mutex_lock(&cm->lock);
    id = cm_id_find(cm, c->file, handle);
    if (!id) pthread_mutex_unlock(&cm->lock);
    return id;
}

static int cm_abi_unlock(int result)
{
    pthread_mutex_unlock(&cm_service()->lock);
    return result;
}

static int cm_abi_answer(uint64_t to, const void *data, size_t len, const struct cm_call *c)
{
    return uv_copy_out(to, data, len < c->out_len ? len : c->out_len);
}

static int create_id(struct cm_call *c)
{
    const struct rdma_ucm_create_id *cmd = (const void *)&c->in;
    struct rdma_ucm_create_id_resp resp;
    struct cm *cm = cm_service();
    struct cm_id *id;
    int err;

    if (c->out_len < sizeof(resp)) return -ENOSPC;
    pthread_mutex_lock(&cm->lock);
    err = cm_create(cm, c->file, cmd, &resp.id);
    cm_abi_unlock(0);
    if (err) return err;
    err = cm_abi_answer(cmd->response, &resp, sizeof(resp), c);
    if (!err) return 0;
    id = lock_id(c, resp.id);
    if (id) {
        cm_destroy(id);
        cm_abi_unlock(0);
    }
    return err;
}

static int destroy_id(struct cm_call *c)
{
    const struct rdma_ucm_destroy_id *cmd = (const void *)&c->in;
    struct rdma_ucm_destroy_id_resp resp;
    struct cm_id *id;

    if (c->out_len < sizeof(resp)) return -ENOSPC;
    id = lock_id(c, cmd->id);
    if (!id) return -ENOENT;
    resp.events_reported = cm_destroy(id);
    cm_abi_unlock(0);
    return cm_abi_answer(cmd->response, &resp, sizeof(resp), c);
}

/* ---- addresses ----------------------------------------------------------------------------------------- */

static int cm_abi_bind_to(struct cm_call *c, uint32_t handle, const void *sa, size_t len)
{
    struct cm_addr addr;
    struct cm_id *id;
    int err = cm_addr_in(&addr, sa, len);

    if (!err) err = cm_service_up();
    if (err) return err;
    id = lock_id(c, handle);
    return id ? cm_abi_unlock(cm_bind(id, &addr)) : -ENOENT;
}

static int bind_ip(struct cm_call *c)
{
    const struct rdma_ucm_bind_ip *cmd = (const void *)&c->in;

    return cm_abi_bind_to(c, cmd->id, &cmd->addr, sizeof(cmd->addr));
}

static int bind_any(struct cm_call *c)
{
    const struct rdma_ucm_bind *cmd = (const void *)&c->in;

    if (cmd->reserved || cmd->addr_size > sizeof(cmd->addr)) return -EINVAL;
    return cm_abi_bind_to(c, cmd->id, &cmd->addr, cmd->addr_size);
}

static int cm_abi_resolve(struct cm_call *c, uint32_t handle, const void *from, size_t from_len,
                          const void *to, size_t to_len)
{
    struct cm_addr src = {0}, dst;
    struct cm_id *id;
    int err = cm_addr_in(&dst, to, to_len);

    if (!err && from_len && ((const struct sockaddr *)from)->sa_family)
        err = cm_addr_in(&src, from, from_len);
    if (!err) err = cm_service_up();
    if (err) return err;
    id = lock_id(c, handle);
    return id ? cm_abi_unlock(cm_resolve_addr(id, &src, &dst)) : -ENOENT;
}

static int resolve_ip(struct cm_call *c)
{
    const struct rdma_ucm_resolve_ip *cmd = (const void *)&c->in;

    return cm_abi_resolve(c, cmd->id, &cmd->src_addr, sizeof(cmd->src_addr), &cmd->dst_addr,
                          sizeof(cmd->dst_addr));
}

static int resolve_addr(struct cm_call *c)
{
    const struct rdma_ucm_resolve_addr *cmd = (const void *)&c->in;

    if (cmd->reserved || cmd->src_size > sizeof(cmd->src_addr) || cmd->dst_size > sizeof(cmd->dst_addr))
        return -EINVAL;
    return cm_abi_resolve(c, cmd->id, &cmd->src_addr, cmd->src_size, &cmd->dst_addr, cmd->dst_size);
}

static int resolve_route(struct cm_call *c)
{
    const struct rdma_ucm_resolve_route *cmd = (const void *)&c->in;
    struct cm_id *id = lock_id(c, cmd->id);

    return id ? cm_abi_unlock(cm_resolve_route(id)) : -ENOENT;
}

/* ---- queries ------------------------------------------------------------------------------------------- */

static int query_route(struct cm_call *c)
{
    const struct rdma_ucm_query *cmd = (const void *)&c->in;
    struct rdma_ucm_query_route_resp resp;
    struct cm_id *id;

    if (c->out_len < offsetof(struct rdma_ucm_query_route_resp, ibdev_index)) return -ENOSPC;
    id = lock_id(c, cmd->id);
    if (!id) return -ENOENT;
    cm_query_route(id, &resp);
    cm_abi_unlock(0);
    return cm_abi_answer(cmd->response, &resp, sizeof(resp), c);
}

static int query_path(struct cm_call *c, struct cm_id *id, uint64_t to)
{
    union {
        struct rdma_ucm_query_path_resp resp;
        uint8_t bytes[sizeof(struct rdma_ucm_query_path_resp) + PATHS * sizeof(struct ib_path_rec_data)];
    } a = {.bytes = {0}};
    size_t len = sizeof(a);

    cm_query_path(id, a.resp.path_data, &a.resp.num_paths);
    cm_abi_unlock(0);
    if (!a.resp.num_paths || c->out_len < sizeof(a)) len = sizeof(a.resp);
    return cm_abi_answer(to, &a, len, c);
}

static int cm_abi_query(struct cm_call *c)
{
    const struct rdma_ucm_query *cmd = (const void *)&c->in;
    struct rdma_ucm_query_addr_resp resp;
    size_t least = cmd->option == RDMA_USER_CM_QUERY_PATH
                       ? sizeof(struct rdma_ucm_query_path_resp)
                       : offsetof(struct rdma_ucm_query_addr_resp, ibdev_index);
    struct cm_id *id;

    if (c->out_len < least) return -ENOSPC;
    id = lock_id(c, cmd->id);
    if (!id) return -ENOENT;
    switch (cmd->option) {
    case RDMA_USER_CM_QUERY_ADDR: cm_query_addr(id, &resp); break;
    case RDMA_USER_CM_QUERY_GID: cm_query_gid(id, &resp); break;
    case RDMA_USER_CM_QUERY_PATH: return query_path(c, id, cmd->response);
    default: return cm_abi_unlock(-ENOSYS);
    }
    cm_abi_unlock(0);
    return cm_abi_answer(cmd->response, &resp, sizeof(resp), c);
}

static int init_qp_attr(struct cm_call *c)
{
    const struct rdma_ucm_init_qp_attr *cmd = (const void *)&c->in;
    struct ib_uverbs_qp_attr resp;
    struct cm_id *id;
    int err;

    if (c->out_len < sizeof(resp)) return -ENOSPC;
    id = lock_id(c, cmd->id);
    if (!id) return -ENOENT;
    err = cm_abi_unlock(cm_qp_attr(id, cmd->qp_state, &resp));
    return err ? err : cm_abi_answer(cmd->response, &resp, sizeof(resp), c);
}

/* ---- connections --------------------------------------------------------------------------------------- */

static int connect_to(struct cm_call *c)
{
    const struct rdma_ucm_connect *cmd = (const void *)&c->in;
    struct cm_id *id = lock_id(c, cmd->id);

    return id ? cm_abi_unlock(cm_connect(id, cmd)) : -ENOENT;
}

static int listen_to(struct cm_call *c)
{
    const struct rdma_ucm_listen *cmd = (const void *)&c->in;
    struct cm_id *id;
    int err = cm_service_up();

    if (err) return err;
    id = lock_id(c, cmd->id);
    return id ? cm_abi_unlock(cm_listen(id, cmd->backlog)) : -ENOENT;
}

static int accept_it(struct cm_call *c)
{
    const struct rdma_ucm_accept *cmd = (const void *)&c->in;
    struct cm_id *id = lock_id(c, cmd->id);

    return id ? cm_abi_unlock(cm_accept(id, cmd)) : -ENOENT;
}

static int reject(struct cm_call *c)
{
    const struct rdma_ucm_reject *cmd = (const void *)&c->in;
    struct cm_id *id = lock_id(c, cmd->id);

    return id ? cm_abi_unlock(cm_reject(id, cmd)) : -ENOENT;
}

static int cm_abi_disconnect(struct cm_call *c)
{
    const struct rdma_ucm_disconnect *cmd = (const void *)&c->in;
    struct cm_id *id = lock_id(c, cmd->id);

    return id ? cm_abi_unlock(cm_disconnect(id)) : -ENOENT;
}

static int notify(struct cm_call *c)
{
    const struct rdma_ucm_notify *cmd = (const void *)&c->in;
    struct cm_id *id = lock_id(c, cmd->id);

    return id ? cm_abi_unlock(cm_notify(id, cmd->event)) : -ENOENT;
}

/* ---- events -------------------------------------------------------------------------------------------- */

static int get_event(struct cm_call *c)
{
    const struct rdma_ucm_get_event *cmd = (const void *)&c->in;
    struct rdma_ucm_event_resp resp;
    struct cm *cm = cm_service();
    bool got = false;

    /* Without the last members for those who know only earlier versions. */
    if (c->out_len < offsetof(struct rdma_ucm_event_resp, reserved)) return -ENOSPC;
    while (!got) {
        char byte;
        /* Waits for the byte that lies there while there are events; O_NONBLOCK and signals are the socket's.
         */
        ssize_t n = recv(c->file->fd, &byte, 1, MSG_PEEK);

        if (n < 0) return -errno;
        pthread_mutex_lock(&cm->lock);
        got = cm_event_take(c->file, &resp);
        cm_abi_unlock(0);
    }
    return cm_abi_answer(cmd->response, &resp, sizeof(resp), c);
}

static int migrate_id(struct cm_call *c)
{
    const struct rdma_ucm_migrate_id *cmd = (const void *)&c->in;
    struct rdma_ucm_migrate_resp resp;
    struct cm_file *from;
    struct cm_id *id;
    int err = -ENOENT;

    if (c->out_len < sizeof(resp)) return -ENOSPC;
    from = cm_file_get((int)cmd->fd);
    if (!from) return -EINVAL;
    pthread_mutex_lock(&cm_service()->lock);
    id = cm_id_find(cm_service(), from, cmd->id);
    if (id) err = cm_migrate(id, c->file, &resp.events_reported);
    cm_abi_unlock(0);
    cm_file_put(from);
    return err ? err : cm_abi_answer(cmd->response, &resp, sizeof(resp), c);
}

/* ---- options ------------------------------------------------------------------------------------------- */

static int set_option(struct cm_call *c)
{
    const struct rdma_ucm_set_option *cmd = (const void *)&c->in;
    uint8_t value[CM_OPTION_ROOM] = {0};
    uint32_t len = cmd->optlen < sizeof(value) ? cmd->optlen : sizeof(value);
    struct cm_id *id;

    if (cmd->level == RDMA_OPTION_ID && len < cmd->optlen) return -EINVAL;
    if (uv_copy_in(value, cmd->optval, len)) return -EFAULT;
    id = lock_id(c, cmd->id);
    return id ? cm_abi_unlock(cm_set_option(id, cmd->level, cmd->optname, value, cmd->optlen)) : -ENOENT;
}

static int no_multicast(struct cm_call *c)
{
    (void)c;
    return -EOPNOTSUPP;
}

static int (*const commands[])(struct cm_call *) = {
    [RDMA_USER_CM_CMD_CREATE_ID] = create_id,
    [RDMA_USER_CM_CMD_DESTROY_ID] = destroy_id,
    [RDMA_USER_CM_CMD_BIND_IP] = bind_ip,
    [RDMA_USER_CM_CMD_RESOLVE_IP] = resolve_ip,
    [RDMA_USER_CM_CMD_RESOLVE_ROUTE] = resolve_route,
    [RDMA_USER_CM_CMD_QUERY_ROUTE] = query_route,
    [RDMA_USER_CM_CMD_CONNECT] = connect_to,
    [RDMA_USER_CM_CMD_LISTEN] = listen_to,
    [RDMA_USER_CM_CMD_ACCEPT] = accept_it,
    [RDMA_USER_CM_CMD_REJECT] = reject,
    [RDMA_USER_CM_CMD_DISCONNECT] = cm_abi_disconnect,
    [RDMA_USER_CM_CMD_INIT_QP_ATTR] = init_qp_attr,
    [RDMA_USER_CM_CMD_GET_EVENT] = get_event,
    [RDMA_USER_CM_CMD_SET_OPTION] = set_option,
    [RDMA_USER_CM_CMD_NOTIFY] = notify,
    [RDMA_USER_CM_CMD_JOIN_IP_MCAST] = no_multicast,
    [RDMA_USER_CM_CMD_LEAVE_MCAST] = no_multicast,
    [RDMA_USER_CM_CMD_MIGRATE_ID] = migrate_id,
    [RDMA_USER_CM_CMD_QUERY] = cm_abi_query,
    [RDMA_USER_CM_CMD_BIND] = bind_any,
    [RDMA_USER_CM_CMD_RESOLVE_ADDR] = resolve_addr,
    [RDMA_USER_CM_CMD_JOIN_MCAST] = no_multicast,
};

int cm_command(struct cm_call *c, uint32_t command)
{
    if (command >= COUNT(commands)) return -EINVAL;
    return commands[command] ? commands[command](c) : -ENOSYS;
}
