/* SPDX-License-Identifier: Apache-2.0 */
/* The executor and the NIC that models run on, and those of the doors. */
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/generate/host/model.h"

int gen_place_open(const char *exec, uint32_t gpu, const char *device, struct gen_place *p)
{
    const struct gw_exec_opts opts = {.device = gpu};
    struct gw_device_info nic;
    int err = gw_exec_create(exec, &opts, &p->exec);
    if (!err) err = gw_device_open(device, p->exec, &p->dev);
    if (err) return err;
    /* The doors use the same NIC from CPU threads, wherever the models run. */
    gw_device_query(p->dev, &nic);
    err = gw_exec_create("cpu", NULL, &p->own_exec);
    return err ? err : gw_device_open(nic.soft ? "softnic" : nic.name, p->own_exec, &p->own_dev);
}

void gen_place_close(struct gen_place *p)
{
    if (p->own_dev) gw_device_close(p->own_dev);
    gw_exec_destroy(p->own_exec);
    if (p->dev) gw_device_close(p->dev);
    gw_exec_destroy(p->exec);
    memset(p, 0, sizeof(*p));
}
