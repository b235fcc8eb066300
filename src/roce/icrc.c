/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the ICRC, whole or from what has changed. */
#include "src/roce/icrc.h"

#include <string.h>

#include "src/roce/hdr.h"
#include "src/roce/tables.h"

#ifdef GW_HAVE_ISAL
#include <isa-l/crc.h>
#endif

/*
 * CRC registers are polynomials over GF(2) modulo the CRC's, reflected: bit 31 is x^0, bit 0 is x^31. A zero
 * byte multiplies by x^8, which is invertible, so a register can be taken back as well as forward.
 */
static uint32_t icrc_multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (int i = 31; i >= 0; i--) {
        product ^= b & -(a >> i & 1);
        b = b >> 1 ^ (ROCE_CRC_POLY & -(b & 1));
    }
    return product;
}

static uint32_t icrc_shift(uint32_t reg, size_t n, const struct roce_crc_powers *powers)
{
    for (; n > 0xffff; n -= 0x10000) reg = icrc_multiply(powers->page, reg);
    if (n & 0xff) reg = icrc_multiply(powers->low[n & 0xff], reg);
    if (n >> 8) reg = icrc_multiply(powers->high[n >> 8], reg);
    return reg;
}

uint32_t roce_crc_advance(uint32_t reg, size_t n)
{
    return icrc_shift(reg, n, &roce_crc_forward);
}

uint32_t roce_crc_rewind(uint32_t reg, size_t n)
{
    return icrc_shift(reg, n, &roce_crc_backward);
}

uint32_t roce_crc32_portable(uint32_t crc, const void *data, size_t len)
{
    const uint32_t(*t)[256] = roce_crc_slices;
    const uint8_t *p = data;
    uint32_t lo, hi;

    crc = ~crc;
    for (; len >= 8; len -= 8, p += 8) {
        memcpy(&lo, p, 4);
        memcpy(&hi, p + 4, 4);
        lo ^= crc;
        crc = t[7][lo & 0xff] ^ t[6][lo >> 8 & 0xff] ^ t[5][lo >> 16 & 0xff] ^ t[4][lo >> 24] ^
              t[3][hi & 0xff] ^ t[2][hi >> 8 & 0xff] ^ t[1][hi >> 16 & 0xff] ^ t[0][hi >> 24];
    }
    while (len--) crc = crc >> 8 ^ t[0][(crc ^ *p++) & 0xff];
    return ~crc;
}

#ifdef GW_HAVE_ISAL
#ifdef __x86_64__
/*
 * ISA-L's wide code returns without vzeroupper. The first SSE instruction after it, anywhere in the program,
 * then waits until the processor has put aside the upper halves of all registers. That takes 160 ns on an Ice
 * Lake or later, three times as long as the CRC of 4 KiB. Only CPUs that have those halves know the
 * instruction.
 */
static bool has_avx;

__attribute__((constructor(101))) static void look_for_avx(void)
{
    __builtin_cpu_init();
    has_avx = __builtin_cpu_supports("avx");
}

static void leave_wide_code(void)
{
    if (has_avx)
        __asm__ volatile("vzeroupper" ::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                               "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}
#else
static void leave_wide_code(void) {}
#endif

uint32_t roce_crc32(uint32_t crc, const void *data, size_t len)
{
    crc = crc32_gzip_refl(crc, data, len);
    leave_wide_code();
    return crc;
}

const char *roce_crc32_impl(void)
{
    return "isa-l";
}
#else
uint32_t roce_crc32(uint32_t crc, const void *data, size_t len)
{
    return roce_crc32_portable(crc, data, len);
}

const char *roce_crc32_impl(void)
{
    return "tables";
}
#endif

static uint8_t *icrc_put16(uint8_t *p, uint32_t v)
{
    *p++ = (uint8_t)(v >> 8);
    *p++ = (uint8_t)v;
    return p;
}

/* Writes what stands before the BTH as the ICRC sees it: 36 bytes for IPv4, 56 for IPv6. */
static size_t pseudo_headers(uint8_t *out, const struct roce_path *path, uint32_t udp_len)
{
    uint8_t *p = out;

    memset(p, 0xff, 8);
    p += 8;
    if (path->ipv6) {
        memcpy(p, "\x6f\xff\xff\xff", 4);
        p = icrc_put16(p + 4, udp_len);
        *p++ = 17;
        *p++ = 0xff;
    } else {
        *p++ = 0x45;
        *p++ = 0xff;
        p = icrc_put16(p, 20 + udp_len);
        p = icrc_put16(p, path->ip_id);
        p = icrc_put16(p, path->frag_off);
        memcpy(p, "\xff\x11\xff\xff", 4);
        p += 4;
    }
    size_t addr = path->ipv6 ? 16 : 4;
    memcpy(p, path->src, addr);
    memcpy(p + addr, path->dst, addr);
    p += 2 * addr;
    p = icrc_put16(p, path->sport);
    p = icrc_put16(p, path->dport);
    p = icrc_put16(p, udp_len);
    p = icrc_put16(p, 0xffff);
    return (size_t)(p - out);
}

uint32_t roce_icrc_begin(const struct roce_path *path, uint32_t udp_payload_len, const uint8_t *hdr,
                         size_t hdr_len)
{
    uint8_t buf[56 + ROCE_BTH_LEN];
    size_t n = pseudo_headers(buf, path, udp_payload_len + 8);
    uint32_t crc;

    memcpy(buf + n, hdr, ROCE_BTH_LEN);
    buf[n + 4] = 0xff;
    crc = roce_crc32(0, buf, n + ROCE_BTH_LEN);
    return hdr_len > ROCE_BTH_LEN ? roce_crc32(crc, hdr + ROCE_BTH_LEN, hdr_len - ROCE_BTH_LEN) : crc;
}

uint32_t roce_icrc_start(const struct roce_path *path, uint32_t udp_payload_len)
{
    uint8_t buf[56];

    return roce_crc32(0, buf, pseudo_headers(buf, path, udp_payload_len + 8));
}

uint32_t roce_icrc_from(uint32_t start, uint8_t *p, size_t len)
{
    uint8_t congestion = p[4];
    uint32_t icrc;

    p[4] = 0xff;
    icrc = roce_crc32(start, p, len - ROCE_ICRC_LEN);
    p[4] = congestion;
    return icrc;
}

uint32_t roce_icrc(const struct roce_path *path, const uint8_t *p, size_t len)
{
    return roce_icrc_begin(path, (uint32_t)len, p, len - ROCE_ICRC_LEN);
}

bool roce_icrc_ok(const struct roce_path *path, const uint8_t *p, size_t len)
{
    return len >= ROCE_MIN_PACKET && roce_icrc(path, p, len) == roce_icrc_carried(p, len);
}

bool roce_icrc_match_ipv4_any_id(const struct roce_path *path, const uint8_t *p, size_t len, uint16_t *ip_id)
{
    struct roce_path zero = *path;
    uint32_t id;

    if (path->ipv6 || len < ROCE_MIN_PACKET) return false;
    zero.ip_id = 0;
    /*
     * CRC is linear. So the carried value differs from the one for ID 0 only by the part of the ID's two
     * bytes. That is the register after these alone, the 22 - 8 + 8 bytes of headers, and the payload after
     * them. Two bytes enter a register's low half, so taken back over themselves too, the difference must be
     * a 16-bit number, and that is the ID.
     */
    id = roce_crc_rewind(roce_icrc(&zero, p, len) ^ roce_icrc_carried(p, len),
                         2 + 14 + 8 + len - ROCE_ICRC_LEN);
    if (id >> 16) return false;
    *ip_id = (uint16_t)(id << 8 | id >> 8);
    return true;
}

uint32_t roce_icrc_patch(uint32_t icrc, const uint8_t *from, const uint8_t *to, size_t n, size_t tail)
{
    uint32_t reg = 0;

    for (size_t i = 0; i < n; i++) reg = reg >> 8 ^ roce_crc_slices[0][(reg ^ from[i] ^ to[i]) & 0xff];
    return icrc ^ roce_crc_advance(reg, tail);
}

static uint16_t icrc_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

int roce_path_of_packet(const uint8_t *ip, size_t len, struct roce_path *path, size_t *payload_len)
{
    size_t addr, hdr, total;
    uint8_t next;

    memset(path, 0, sizeof(*path));
    if (len < 1) return -1;
    path->ipv6 = ip[0] >> 4 == 6;
    addr = path->ipv6 ? 16 : 4;
    hdr = path->ipv6 ? 40 : 20;
    if (len < hdr + 8 || (!path->ipv6 && ip[0] != 0x45)) return -1;
    total = path->ipv6 ? hdr + icrc_get16(ip + 4) : icrc_get16(ip + 2);
    next = path->ipv6 ? ip[6] : ip[9];
    if (next != 17 || total < hdr + 8 || total > len) return -1;
    if (!path->ipv6) {
        path->ip_id = icrc_get16(ip + 4);
        path->frag_off = icrc_get16(ip + 6);
        if (path->frag_off & 0x3fff) return -1; /* a fragment */
    }
    memcpy(path->src, ip + hdr - 2 * addr, addr);
    memcpy(path->dst, ip + hdr - addr, addr);
    path->sport = icrc_get16(ip + hdr);
    path->dport = icrc_get16(ip + hdr + 2);
    if (icrc_get16(ip + hdr + 4) != total - hdr) return -1;
    *payload_len = total - hdr - 8;
    return (int)(hdr + 8);
}
