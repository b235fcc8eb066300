/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the slots of one host: the name by which a process is met (local/meet.h). A peer sends a question
 * with a random nonce to the process's slot, and only the port's owner can answer with that nonce. The
 * answer goes to the port that asked, if a process of the same user has it.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "softnic/wire/udp_state.h"

/* As with wrappers, the first byte is no opcode of a frame; after it comes the version of the layout. */
static const uint8_t hello_magic[4] = {SN_UDP_WRAPPED, 'g', 'h', 1};

enum hello_kind { HELLO_QUESTION = 1, HELLO_ANSWER = 2 };

/* magic, kind, three zeros, nonce, name. */
enum { HELLO_KIND = 4, HELLO_NONCE = 8, HELLO_NAME = 24, HELLO_LEN = 40 };

static void send_hello(const struct sn_udp *udp, const struct sn_addr *to, uint16_t port,
                       enum hello_kind kind, const uint8_t nonce[SN_MEET_NONCE], const uint8_t *name)
{
    uint8_t hello[HELLO_LEN] = {0};
    struct sockaddr_in6 sa;
    socklen_t len = sn_addr_to_sock(to, port, &sa);

    memcpy(hello, hello_magic, sizeof(hello_magic));
    hello[HELLO_KIND] = (uint8_t)kind;
    memcpy(hello + HELLO_NONCE, nonce, SN_MEET_NONCE);
    if (name) memcpy(hello + HELLO_NAME, name, SN_MEET_NAME);
    /* It may get lost, and will be repeated. */
    if (sendto(udp->slot.fd, hello, sizeof(hello), MSG_DONTWAIT, (struct sockaddr *)&sa, len) < 0) return;
}

bool sn_udp_is_hello(const struct sn_frame *frame)
{
    return frame->len >= HELLO_LEN && memcmp(frame->data, hello_magic, sizeof(hello_magic)) == 0;
}

static bool is_same_users(struct sn_udp *udp, const struct sn_addr *at, uint16_t port)
{
    struct sn_owner who = sn_owners_ask(&udp->senders, at, port);

    return who.kind == SN_OWNER_UNKNOWN || (who.kind == SN_OWNER_PROCESS && who.uid == geteuid());
}

void sn_udp_take_hello(struct sn_udp *udp, const struct sn_frame *frame)
{
    const uint8_t *nonce = frame->data + HELLO_NONCE, *name = frame->data + HELLO_NAME;
    struct sn_addr from = {.scope = udp->addr.scope};

    memcpy(from.gid, frame->src_gid, 16);
    if (frame->data[HELLO_KIND] == HELLO_QUESTION && is_same_users(udp, &from, frame->sport))
        send_hello(udp, &from, frame->sport, HELLO_ANSWER, nonce, udp->hello.name);
    if (frame->data[HELLO_KIND] == HELLO_ANSWER && udp->hello.told)
        udp->hello.told(udp->hello.ctx, frame->src_gid, (unsigned)(frame->sport - SN_SLOT_PORT), nonce, name);
}

void sn_udp_on_hello(struct sn_udp *udp, const struct sn_udp_hello *hello)
{
    udp->hello = *hello;
}

bool sn_udp_ask(const struct sn_udp *udp, const uint8_t gid[16], unsigned slot,
                const uint8_t nonce[SN_MEET_NONCE])
{
    struct sn_addr to = {.scope = udp->addr.scope};

    memcpy(to.gid, gid, 16);
    if (memcmp(gid, udp->addr.gid, 16) && !sn_near_is_now(&to)) return false;
    send_hello(udp, &to, (uint16_t)(SN_SLOT_PORT + slot), HELLO_QUESTION, nonce, NULL);
    return true;
}
