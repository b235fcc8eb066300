/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of a pcapng file, in the byte order of the writer. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "softnic/config/addr.h"
#include "softnic/wire/pcap_state.h"

enum { SECTION = 0x0a0d0d0a, INTERFACE = 1, PACKET = 6, LINKTYPE_RAW = 101 };
enum {
    OPT_END = 0,
    OPT_USERAPPL = 4,
    OPT_IF_NAME = 2,
    OPT_IF_DESCRIPTION = 3,
    OPT_IF_TSRESOL = 9,
    OPT_FLAGS = 2
};

static uint8_t *pcap_block_put32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, 4); /* a section is in the byte order of its writer */
    return p + 4;
}

static uint8_t *put_option(uint8_t *p, uint16_t code, const void *data, uint16_t len)
{
    memcpy(p, &code, 2);
    memcpy(p + 2, &len, 2);
    memset(p + 4, 0, sn_pcap_padded(len));
    memcpy(p + 4, data, len);
    return p + 4 + sn_pcap_padded(len);
}

/* The block that began at start is complete but for its two lengths. */
static uint8_t *end_block(uint8_t *start, uint8_t *p)
{
    uint32_t len = (uint32_t)(p + 4 - start);

    pcap_block_put32(start + 4, len);
    return pcap_block_put32(p, len);
}

static void program_name(char name[64])
{
    ssize_t n = -1;
    int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        n = read(fd, name, 63);
        close(fd);
    }
    name[n > 0 ? n - (name[n - 1] == '\n') : 0] = 0;
}

size_t sn_pcap_beginning(uint8_t out[SN_PCAP_BEGINNING], const uint8_t gid[16])
{
    static const char application[] = "gpuwire software NIC";
    struct sn_addr addr = {.scope = 0};
    char text[SN_ADDR_TEXT], program[64], about[SN_ADDR_TEXT + 96];
    uint8_t *start = out, *p = pcap_block_put32(out + 8, 0x1a2b3c4d), resolution = 9;
    uint16_t version[2] = {1, 0}, link[2] = {LINKTYPE_RAW, 0};

    pcap_block_put32(start, SECTION);
    memcpy(p, version, 4);
    memset(p + 4, 0xff, 8); /* the section's length: not said */
    p = put_option(p + 12, OPT_USERAPPL, application, sizeof(application) - 1);
    p = end_block(start, pcap_block_put32(p, OPT_END));

    memcpy(addr.gid, gid, 16);
    program_name(program);
    snprintf(about, sizeof(about), "%s of process %d (%s)", sn_addr_text(&addr, text), (int)getpid(),
             program);
    start = p;
    pcap_block_put32(start, INTERFACE);
    memcpy(start + 8, link, 4);
    p = pcap_block_put32(start + 12, 0); /* packets are never cut */
    p = put_option(p, OPT_IF_NAME, "mlx5_0", 6);
    p = put_option(p, OPT_IF_DESCRIPTION, about, (uint16_t)strlen(about));
    p = put_option(p, OPT_IF_TSRESOL, &resolution, 1);
    p = end_block(start, pcap_block_put32(p, OPT_END));
    return (size_t)(p - out);
}

uint32_t sn_pcap_block(uint32_t len)
{
    return SN_PCAP_HEAD + sn_pcap_padded(len) + SN_PCAP_TAIL;
}

void sn_pcap_head(uint8_t out[SN_PCAP_HEAD], uint32_t len, uint64_t time)
{
    uint8_t *p = pcap_block_put32(pcap_block_put32(pcap_block_put32(out, PACKET), sn_pcap_block(len)), 0);

    p = pcap_block_put32(pcap_block_put32(p, (uint32_t)(time >> 32)), (uint32_t)time);
    pcap_block_put32(pcap_block_put32(p, len), len);
}

void sn_pcap_tail(uint8_t p[SN_PCAP_TAIL], uint32_t len, bool out)
{
    uint32_t flags = out ? 2 : 1;

    p = put_option(p, OPT_FLAGS, &flags, 4);
    pcap_block_put32(pcap_block_put32(p, OPT_END), sn_pcap_block(len));
}
