/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as management datagrams, to a connection manager that listens, has requests waiting and is
 * connected. The first byte of each round says where it comes from and how well it fits: which IDs are put
 * right. A message that parses must come out of the builder as it was understood.
 */
#include "tests/fuzz/cm_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct cm cm;
static struct cm_file file;

static void env_send(void *ctx, const struct cm_nic *nic, const uint8_t dgid[16],
                     const uint8_t mad[ROCE_MAD_LEN])
{
    struct roce_cm m;

    (void)ctx;
    (void)dgid;
    require(nic && !roce_cm_parse(mad, &m)); /* whatever is sent is a message */
}

static const uint8_t nowhere[16], self[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1},
                                  peer[16] = {[10] = 0xff, 0xff, 10, 0, 0, 2};

static void up(void)
{
    struct cm_nic nic = {.mtu = 5};
    struct cm_addr addr = {.family = 2, .port = 7}, none = {0};
    struct rdma_ucm_connect cmd = {.conn_param = {.valid = 1}};
    struct cm_id *id;

    now = 1;
    next_random = 0;
    memcpy(nic.gid, self, 16);
    env_up(&cm, &file, NULL, env_send, &nic);
    memcpy(addr.gid, self, 16);
    for (int i = 0; i < 2; i++) {
        id = env_id(&cm, &file, i ? RDMA_PS_UDP : RDMA_PS_TCP);
        require(!cm_bind(id, &addr) && !cm_listen(id, 3));
    }
    memcpy(addr.gid, peer, 16);
    for (int i = 0; i < 3; i++) {
        id = env_id(&cm, &file, i == 2 ? RDMA_PS_UDP : RDMA_PS_TCP);
        require(!cm_resolve_addr(id, &none, &addr) && !cm_resolve_route(id) && !cm_connect(id, &cmd));
    }
}

/* The program's calls in between. */
static void program(unsigned what)
{
    struct rdma_ucm_event_resp e;
    struct rdma_ucm_accept yes = {.uid = 2, .conn_param = {.valid = what & 1, .qp_num = 5}};
    const struct rdma_ucm_reject no = {.private_data_len = 3};
    struct cm_id *id;

    if (!cm_event_take(&file, &e)) return;
    id = cm_id_find(&cm, &file, e.id);
    if (!id) return;
    switch (what >> 1 & 7) {
    case 0:
    case 1:
    case 2: cm_accept(id, &yes); break;
    case 3: cm_reject(id, &no); break;
    case 4: cm_disconnect(id); break;
    case 5: cm_destroy(id); break;
    case 6: cm_notify(id, IBV_EVENT_COMM_EST); break;
    default: break;
    }
}

static void understand(const uint8_t *mad)
{
    struct roce_cm m, again;
    uint8_t built[ROCE_MAD_LEN];

    if (roce_cm_parse(mad, &m)) return;
    require(!roce_cm_build(built, &m) && !roce_cm_parse(built, &again) && !memcmp(&m, &again, sizeof(m)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    up();
    while (size > 8) {
        uint8_t mad[ROCE_MAD_LEN] = {1, 7, 2, 3};
        uint8_t how = data[0], which = data[1];
        size_t n = size - 4 < 200 ? size - 4 : 200;
        const struct cm_id *id = cm.ids[which % (cm.high ? cm.high : 1)];
        uint32_t local = id ? id->local_id : 0, remote = id ? id->remote_id : 0;
        struct cm_origin from = {.slot = data[1] & 128 ? (int)(data[1] & 3) : SN_NO_SLOT};

        mad[17] = (uint8_t)(ROCE_CM_REQ + data[2] % 10);
        for (int i = 0; id && (how & 3) && i < 8; i++)
            mad[8 + i] = (uint8_t)((mad[17] == ROCE_CM_DREP ? id->end_tid : id->tid) >> (56 - 8 * i));
        memcpy(mad + ROCE_MAD_HDR, data + 4, n);
        for (int i = 0; i < 4; i++) {
            if (how & 1) mad[ROCE_MAD_HDR + 4 + i] = (uint8_t)(local >> (24 - 8 * i));
            if (how & 2)
                mad[ROCE_MAD_HDR + i] = (uint8_t)((data[2] % 10 == 8 ? local : remote) >> (24 - 8 * i));
        }
        if (how & 4) { /* a request that could be met */
            static const uint8_t service[8] = {0, 0, 0, 0, 1, 6, 0, 7};

            memcpy(mad + ROCE_MAD_HDR + 8, service, 8);
            if (data[2] % 10 == 7) mad[ROCE_MAD_HDR + 13] = 0x11;
            memcpy(mad + ROCE_MAD_HDR + 56, peer, 16);
            memcpy(mad + ROCE_MAD_HDR + 72, self, 16);
            mad[ROCE_MAD_HDR + 50] = 0x30;
        }
        understand(mad);
        memcpy(from.gid, how & 8 ? self : peer, 16);
        cm_input(&cm, data[2] & 128 ? nowhere : self, &from, mad);
        program(data[3]);
        if (how & 16) now += UINT64_C(1) << (how >> 5) * 5;
        cm_tick(&cm);
        data += 4 + n / 8;
        size -= 4 + n / 8;
    }
    cm_file_end(&cm, &file);
    cm_end(&cm);
    return 0;
}
