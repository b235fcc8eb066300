/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what an rsocket peer may say: private data, and writes with their immediates. */
#include <stdlib.h>
#include <string.h>

#include <gpuwire/rsocket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) abort();
}

/* What is taken comes out of the writer again with the same meaning. */
static void fuzz_conn(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1), out[GW_RS_CONN_BYTES];
    struct gw_rs_conn c, again;

    require(copy != NULL);
    memset(&c, 0, sizeof(c)); /* they are compared with what lies between their fields */
    memset(&again, 0, sizeof(again));
    memcpy(copy, data, size);
    if (!gw_rs_conn_unpack(copy, size, &c)) {
        require(c.credits && c.credits <= 0xffff && c.half.length && c.half.length <= GW_RS_NUMBER_MAX);
        gw_rs_conn_pack(&c, out);
        require(!gw_rs_conn_unpack(out, sizeof(out), &again));
        require(!memcmp(&c, &again, sizeof(c)));
    }
    free(copy);
}

static void fuzz_write(uint32_t imm, uint32_t bytes)
{
    struct gw_rs_msg m;

    if (gw_rs_parse(imm, bytes, &m)) return;
    switch (m.kind) {
    case GW_RS_BYTES: require(m.number == bytes && bytes > 0 && imm == gw_rs_imm(GW_RS_DATA, bytes)); break;
    case GW_RS_CREDITS: require(bytes == 0 && m.number <= 0xffff && imm >> 29 == GW_RS_CREDIT); break;
    case GW_RS_CREDITS_HALF: require(bytes == sizeof(struct gw_rs_sge) && imm >> 29 == GW_RS_CREDIT); break;
    case GW_RS_MAPPED:
        require(bytes == sizeof(struct gw_rs_map) && imm == gw_rs_imm(GW_RS_IOMAP, m.number));
        break;
    case GW_RS_NOTHING: require(imm == gw_rs_imm(GW_RS_CONTROL, GW_RS_KEEPALIVE) && !bytes); break;
    case GW_RS_END: require(imm == gw_rs_imm(GW_RS_CONTROL, GW_RS_SHUTDOWN) && !bytes); break;
    case GW_RS_CLOSED: require(imm == gw_rs_imm(GW_RS_CONTROL, GW_RS_DISCONNECT) && !bytes); break;
    default: abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t word[2];

    fuzz_conn(data, size);
    for (; size >= sizeof(word); data += sizeof(word), size -= sizeof(word)) {
        memcpy(word, data, sizeof(word));
        fuzz_write(word[0], word[1]);
        fuzz_write(word[0], word[1] & 31); /* lengths that mean something */
        fuzz_write(word[0], word[0] & GW_RS_NUMBER_MAX);
    }
    return 0;
}
