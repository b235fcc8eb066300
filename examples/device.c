/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gw_version, gw_device_query, gw_device_exec, gw_device_context, gw_reach_try, gw_post_try: what a device is
 * and can do, which `gpuwire info` tells, too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "options.h"

#include <gpuwire/verbs.h>

static void say(const char *what, int err)
{
    printf("%s: %s\n", what, err ? gw_last_error() : "works");
}

int main(int argc, char **argv)
{
    struct gw_device_info info;
    struct gw_exec *exec;
    struct gw_device *dev;

    test_options(argc, argv);
    exec = test_exec();
    if (gw_device_open(NULL, exec, &dev)) return fprintf(stderr, "network device: %s\n", gw_last_error()), 1;
    gw_device_query(dev, &info);
    printf("gpuwire %s on %s (%s), MTU %u, kernels on %s\n", gw_version(), info.name,
           info.soft ? "software" : info.board, info.mtu, gw_exec_name(gw_device_exec(dev)));

    /* Each is tried with a small piece of memory, or a small queue pair. */
    say("mapped host memory", gw_reach_try(dev, GW_REACH_HOST));
    say("GPU memory by its address", gw_reach_try(dev, GW_REACH_DIRECT));
    say("GPU memory as a dma-buf", gw_reach_try(dev, GW_REACH_DMABUF));
    say("posting, direct", gw_post_try(dev, GW_POST_DIRECT));
    say("posting, proxy-doorbell", gw_post_try(dev, GW_POST_PROXY_DOORBELL));
    say("posting, proxy-post", gw_post_try(dev, GW_POST_PROXY_POST));

    /* The objects underneath are libibverbs' own. */
    int same = !strcmp(info.name, ibv_get_device_name(gw_device_context(dev)->device));
    return gw_device_close(dev) || gw_exec_destroy(exec) || !same;
}
