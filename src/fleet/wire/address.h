/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as texts and as the system's structs. */
#ifndef GW_FLEET_WIRE_ADDRESS_H
#define GW_FLEET_WIRE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct fleet_address {
    struct sockaddr_storage at;
    socklen_t bytes;
};

/* Has it the form of "HOST:PORT" or "[IPV6]:PORT"? Nothing is looked up. */
bool fleet_address_ok(const char *text);
/* "HOST:PORT" or "[IPV6]:PORT". A name is looked up, which may take its time. -EINVAL with the reason. */
int fleet_address_read(const char *text, bool to_listen, struct fleet_address *out);
void fleet_address_text(const struct fleet_address *a, char *out, size_t room);
uint16_t fleet_address_port(const struct fleet_address *a);
bool fleet_address_loopback(const struct fleet_address *a);

#endif
