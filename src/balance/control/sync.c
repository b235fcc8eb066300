/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and stops the threads that tell flows to a standby, or hear them. */
#include "src/balance/control/sync.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/balance/control/sync_impl.h"
#include "src/door/listen.h"
#include "src/door/secret.h"

static int sync_begin(struct gw_bal_sync *s)
{
    char host[GW_BAL_ADDR], *key = NULL;
    uint16_t port;
    const struct gw_bal_global *g = s->global;
    int err = gw_secret_take_token(NULL, g->sync_key_file, &key);
    if (err) return err;
    err = gw_bal_tls_key_make(key, &s->key);
    gw_secret_forget(key);
    if (err) return gw_error_errno(err, "sync_key_file");
    if (g->listen.family) {
        s->listen_fd = gw_listen_tcp("flows of the active balancer", "sync_listen",
                                     gw_bal_addr_text(&g->listen, host), g->listen_port, &port);
        if (s->listen_fd < 0) return s->listen_fd;
        s->receives = !pthread_create(&s->listener, NULL, gw_bal_sync_listen, s);
    }
    if (g->standby.family) s->sends = !pthread_create(&s->sender, NULL, gw_bal_sync_send, s);
    return s->sends == !!g->standby.family && s->receives == !!g->listen.family
               ? 0
               : gw_error_errno(-EAGAIN, "thread");
}

int gw_bal_sync_start(struct bal *bal, const struct gw_bal_global *g, struct gw_bal_agent *agent,
                      struct gw_bal_sync **out)
{
    *out = NULL;
    if (!g->standby.family && !g->listen.family) return 0;
    struct gw_bal_sync *s = calloc(1, sizeof(*s));
    if (!s) return gw_error_errno(-ENOMEM, "standby");
    s->bal = bal;
    s->global = g;
    s->agent = agent;
    s->listen_fd = -1;
    s->end_fd = eventfd(0, EFD_CLOEXEC);
    int err = sync_begin(s);
    if (err)
        gw_bal_sync_stop(s);
    else
        *out = s;
    return err;
}

void gw_bal_sync_stop(struct gw_bal_sync *s)
{
    uint64_t one = 1;
    if (!s) return;
    if (write(s->end_fd, &one, sizeof(one)) < 0) { /* an eventfd takes it */
    }
    if (s->sends) pthread_join(s->sender, NULL);
    if (s->receives) pthread_join(s->listener, NULL);
    if (s->listen_fd >= 0) close(s->listen_fd);
    close(s->end_fd);
    gw_bal_tls_key_forget(&s->key);
    free(s);
}
