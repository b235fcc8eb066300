/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data plane on DPDK's devices, without a control plane: one service, 10.1.0.1 port 80, with two workers.
 *
 *     plane pcap FOLDER [PACKETS]        writes packets to FOLDER/in.pcap, runs, and checks FOLDER/out.pcap
 *     plane errors                       what is refused
 *     plane live FORWARD DEVICE          runs until a signal; FORWARD is dr or nat, the workers listen on
 * port 80
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/balance/run.h"
#include "tests/balance/rig.h"

#define require(ok) ((ok) ? (void)0 : fail(__LINE__, #ok))
static void fail(int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, line, what);
    exit(1);
}

static void configure(struct rig *r, uint32_t cores)
{
    static char error[256];
    const struct bal_attr attr = {.cores = cores};
    require(!rig_open(r, &attr));
    bal_core_end(r->core); /* the data plane has its own */
    rig_service(r, 1, false, BAL_TCP)->forward = BAL_NAT;
    for (uint32_t w = 1; w <= 2; w++) rig_worker(r, w, 1)->port = 8080;
    if (bal_publish(r->bal, &r->config, error, sizeof(error))) fail(__LINE__, error);
}

/* ---- pcap files ---- */

struct file_header {
    uint32_t magic;
    uint16_t major, minor;
    uint32_t zone, accuracy, length, link;
};
struct record_header {
    uint32_t seconds, micros, kept, whole;
};

static void write_packets(const char *path, const struct rig *r, uint32_t n)
{
    static struct rig_packet p;
    const struct file_header h = {0xa1b2c3d4, 2, 4, 0, 0, 65535, 1};
    FILE *f = fopen(path, "w");
    require(f && fwrite(&h, sizeof(h), 1, f) == 1);
    for (uint32_t i = 0; i < n; i++) {
        struct rig_end from = {rig_ip4(0x0a800000 + i % 100), (uint16_t)(1024 + i % 1000)};
        rig_tcp(&p, from, (struct rig_end){r->config.service[1].vip, 80}, i < 1000 ? BAL_SYN : BAL_ACK,
                i % 1000);
        const struct record_header rec = {0, i, p.p.len, p.p.len};
        require(fwrite(&rec, sizeof(rec), 1, f) == 1 && fwrite(p.p.data, p.p.len, 1, f) == 1);
    }
    require(!fclose(f));
}

/* Every packet is valid, and each flow's have one worker. Returns how many there are. */
static uint32_t check_packets(const char *path, const struct rig *r)
{
    static struct rig_packet p;
    static struct bal_addr of[100][1000];
    struct file_header h;
    struct record_header rec;
    uint32_t n = 0;
    FILE *f = fopen(path, "r");
    require(f && fread(&h, sizeof(h), 1, f) == 1);
    while (fread(&rec, sizeof(rec), 1, f) == 1) {
        struct rig_end from, to;
        require(rec.kept <= RIG_LEN);
        rig_arrive(&p, p.buffer, rec.kept);
        require(fread(p.p.data, rec.kept, 1, f) == 1);
        if (p.p.data[12] != 8 || p.p.data[13]) continue; /* the VIP's announcement */
        require(rig_sound(p.p.data + 14, rec.kept - 14));
        rig_ends(&p, &from, &to);
        require(to.port == 8080 && from.port >= 1024);
        struct bal_addr *worker = &of[from.addr.byte[3] % 100][from.port - 1024];
        if (worker->family) require(bal_same_addr(worker, &to.addr));
        *worker = to.addr;
        require(bal_same_addr(&to.addr, &r->config.worker[1].addr) ||
                bal_same_addr(&to.addr, &r->config.worker[2].addr));
        n++;
    }
    fclose(f);
    return n;
}

static struct {
    struct bal *bal;
    uint64_t packets;
    bool up;
} watched;

static void *watch(void *arg)
{
    struct bal_totals t;
    (void)arg;
    for (int i = 0; i < 6000; i++) { /* a minute: far more than it takes */
        bal_totals(watched.bal, -1, &t);
        if (t.received >= watched.packets) break;
        usleep(10000);
    }
    usleep(200000); /* what is sent is written */
    bal_stop(watched.bal);
    return NULL;
}

static void started(void *arg)
{
    pthread_t *thread = arg;
    watched.up = true;
    require(!pthread_create(thread, NULL, watch, NULL));
}

static int over_pcap(const char *folder, uint32_t n)
{
    struct rig r;
    char in[256], out[256], device[600], error[256] = "";
    pthread_t thread;
    configure(&r, 1);
    snprintf(in, sizeof(in), "%s/in.pcap", folder);
    snprintf(out, sizeof(out), "%s/out.pcap", folder);
    snprintf(device, sizeof(device), "pcap:%s,%s", in, out);
    write_packets(in, &r, n);
    watched.bal = r.bal;
    watched.packets = n;
    const struct bal_run run = {.device = {device}, .devices = 1, .started = started, .arg = &thread};
    int rc = gw_balance_run(r.bal, &run, error, sizeof(error));
    if (rc == -ENOTSUP) {
        printf("skipped: %s\n", error);
        return 77;
    }
    if (rc) fail(__LINE__, error);
    require(watched.up);
    pthread_join(thread, NULL);
    struct bal_totals t;
    bal_totals(r.bal, -1, &t);
    uint32_t seen = check_packets(out, &r);
    printf("%u packets, %u forwarded, %llu connections\n", n, seen, (unsigned long long)t.opened);
    require(seen == n && t.packets == n && t.opened == 1000);
    bal_destroy(r.bal);
    return 0;
}

static int errors(void)
{
    struct rig r;
    char error[256];
    static const struct {
        const char *device, *cores;
        int rc;
    } is[] = {
        {"eth0", NULL, -EINVAL},
        {"af_packet:gw-no-such", NULL, -ENODEV},
        {"pcap:/nowhere/at/all.pcap", "0,x", -EINVAL},
    };
    configure(&r, 1);
    for (unsigned i = 0; i < sizeof(is) / sizeof(is[0]); i++) {
        const struct bal_run run = {.device = {is[i].device}, .devices = 1, .cores = is[i].cores};
        int rc = gw_balance_run(r.bal, &run, error, sizeof(error));
        if (rc == -ENOTSUP) return 77;
        printf("%s\n", error);
        require(rc == is[i].rc && *error);
    }
    bal_destroy(r.bal);
    return 0;
}

static void stop(int signal)
{
    (void)signal;
    bal_stop(watched.bal);
}

static void say_up(void *arg)
{
    (void)arg;
    printf("up\n");
    fflush(stdout);
}

static int live(const char *forward, const char *device)
{
    struct rig r;
    char error[256];
    configure(&r, 1);
    r.config.service[1].forward = strcmp(forward, "dr") ? BAL_NAT : BAL_DR;
    for (uint32_t w = 1; w <= 2; w++) {
        r.config.worker[w].port = 80;
        r.config.worker[w].mac_known = false;
    }
    require(!rig_publish(&r));
    watched.bal = r.bal;
    signal(SIGTERM, stop);
    const struct bal_run run = {.device = {device}, .devices = 1, .started = say_up};
    if (gw_balance_run(r.bal, &run, error, sizeof(error))) fail(__LINE__, error);
    struct bal_totals t;
    bal_totals(r.bal, -1, &t);
    printf("received %llu forwarded %llu opened %llu", (unsigned long long)t.received,
           (unsigned long long)t.packets, (unsigned long long)t.opened);
    for (int i = 0; i < BAL_DROPS; i++)
        if (t.drop[i]) printf(" %s %llu", bal_drop_name((enum bal_drop)i), (unsigned long long)t.drop[i]);
    printf("\n");
    bal_destroy(r.bal);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "pcap")) {
        mkdir(argv[2], 0700);
        return over_pcap(argv[2], argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 20000);
    }
    if (argc == 2 && !strcmp(argv[1], "errors")) return errors();
    if (argc == 4 && !strcmp(argv[1], "live")) return live(argv[2], argv[3]);
    fprintf(stderr, "usage: plane pcap FOLDER [PACKETS] | plane errors | plane live FORWARD DEVICE\n");
    return 2;
}
