/* SPDX-License-Identifier: Apache-2.0 */
/*
 * persist.h: clients that stick to a worker, as persistence_timeout says.
 *
 * Each core knows its own clients: all packets of such a service come to the core that has the client. A
 * client is an address, or the net around it that persistence_granularity names. Its time begins again with
 * each packet. The table has sets of eight places. Who is new there takes the place of one whose time is
 * over, else of one that a stranger could have made up. A client whose connection was proven stays.
 */
#ifndef GW_SRC_BALANCE_PERSIST_H
#define GW_SRC_BALANCE_PERSIST_H

#include "src/balance/step.h"

/* Clients of each core. */
enum { BAL_CLIENTS = 131072 };

struct bal_clients;
struct bal_clients *bal_clients_new(void);
void bal_clients_free(struct bal_clients *c);

static inline bool bal_persists(const struct bal_core *core, uint32_t service)
{
    return core->snap->config.service[service].persist_ns != 0;
}
/* Which core knows this client of such a service. */
uint32_t bal_client_core(const struct bal_core *core, uint32_t service, const uint8_t *client, bool ipv6);
/* The worker that the packet's client sticks to, if it takes new connections; else BAL_NO_WORKER. */
uint16_t bal_client_worker(struct bal_core *core, const struct bal_work *w);
/* A connection to this worker begins: the client sticks to it from now on. */
void bal_client_chose(struct bal_core *core, uint32_t service, const uint8_t *client, bool ipv6,
                      uint16_t worker);
/* A flow was opened. It begins, or we have not seen its beginning. */
void bal_client_opened(struct bal_core *core, const struct bal_work *w, uint16_t worker, bool begins);
/* A packet of a connection with this worker. `proven`: no stranger made it up. */
void bal_client_seen(struct bal_core *core, const struct bal_work *w, uint16_t worker, bool proven);
/* Are as many counted for each worker as the table holds? */
bool bal_clients_are_sound(const struct bal_clients *c);
/* Forgets some of those whose time is over, and counts all for their workers. */
void bal_clients_keep(struct bal_core *core);

#endif
