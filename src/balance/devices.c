/* SPDX-License-Identifier: Apache-2.0 */
/* "af_packet:eth0" becomes a device of DPDK, with the driver's arguments. */
#include "src/balance/devices.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define KNOWN "af_packet:NAME, af_xdp:NAME, tap:NAME, pcap:IN[,OUT], pcap-loop:IN or a PCI address"

/* The rings that af_packet shares with the kernel. Little but the beginning of a frame is used. DPDK would
 * put frames a power of two apart, and so all beginnings into few sets of the caches. An odd number of lines
 * reaches all sets. Frames must fill a block, and blocks pages: 64 frames do. */
static void ring_args(char *text, size_t size, uint32_t mtu)
{
    enum {
        LINE = 64,
        FRAMES = 1024,
        USUAL = 31 * LINE,
        HEADERS = 18 + 128 /* Ethernet's, and the kernel's */
    };
    uint32_t frame = USUAL;
    if (mtu + HEADERS > USUAL) frame = ((mtu + HEADERS + LINE - 1) / LINE | 1) * LINE;
    snprintf(text, size, "framecnt=%d,framesz=%u,blocksz=%u", FRAMES, frame, frame * LINE);
}

static bool is_interface(const char *name)
{
    size_t n = strlen(name);
    return n && n < 16 && strcspn(name, ",/ \t=:") == n;
}

static bool is_pci(const char *text)
{
    unsigned domain, bus, device, function;
    char end;
    return sscanf(text, "%4x:%2x:%2x.%1x%c", &domain, &bus, &device, &function, &end) == 4 &&
           strlen(text) == 12;
}

static int files(struct bal_device *d, const char *rest, bool again)
{
    const char *comma = strchr(rest, ',');
    size_t in = comma ? (size_t)(comma - rest) : strlen(rest);
    if (!in || in > 300 || (comma && (again || !comma[1] || strchr(comma + 1, ',') || strlen(comma) > 300)))
        return -1;
    snprintf(d->args, sizeof(d->args), "rx_pcap=%.*s%s%s%s", (int)in, rest, comma ? ",tx_pcap=" : "",
             comma ? comma + 1 : "", again ? ",infinite_rx=1" : "");
    return 0;
}

static int by_driver(struct bal_device *d, const char *driver, const char *rest,
                     const struct bal_device_wish *wish)
{
    d->any_size = !strcmp(driver, "af_packet") || !strncmp(driver, "pcap", 4);
    d->file = !strncmp(driver, "pcap", 4);
    if (!strcmp(driver, "pcap")) return files(d, rest, false);
    if (!strcmp(driver, "pcap-loop")) return files(d, rest, true);
    char ring[64];
    if (!is_interface(rest)) return -1;
    ring_args(ring, sizeof(ring), wish->mtu);
    snprintf(d->kernel, sizeof(d->kernel), "%s", strcmp(driver, "tap") ? rest : "");
    d->needs_raw = true;
    if (!strcmp(driver, "af_packet"))
        snprintf(d->args, sizeof(d->args), "iface=%s,qpairs=%u,%s", rest, wish->queues, ring);
    else if (!strcmp(driver, "af_xdp"))
        snprintf(d->args, sizeof(d->args), "iface=%s,start_queue=0,queue_count=%u", rest, wish->queues);
    else if (!strcmp(driver, "tap"))
        snprintf(d->args, sizeof(d->args), "iface=%s", rest);
    else
        return -1;
    return 0;
}

int bal_device_parse(const char *text, const struct bal_device_wish *wish, struct bal_device *d, char *error,
                     size_t size)
{
    const char *colon = strchr(text, ':');
    char driver[16] = "";
    memset(d, 0, sizeof(*d));
    if (is_pci(text)) {
        strcpy(d->bus, "pci");
        snprintf(d->name, sizeof(d->name), "%s", text);
        return 0;
    }
    if (colon && (size_t)(colon - text) < sizeof(driver)) memcpy(driver, text, (size_t)(colon - text));
    strcpy(d->bus, "vdev");
    d->software = true;
    if (!*driver || by_driver(d, driver, colon + 1, wish)) {
        snprintf(error, size, "no device can be called '%s': give %s", text, KNOWN);
        return -EINVAL;
    }
    char *dash = strchr(driver, '-'); /* pcap-loop is pcap, too */
    if (dash) *dash = 0;
    snprintf(d->name, sizeof(d->name), "net_%s%u", driver, wish->index);
    return 0;
}
