/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the nftables rules that keep the kernel from forwarding the balancer's packets a second time. */
#include "src/balance/control/fence.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/error.h>

#define TABLE "inet gpuwire_balance_"

/* ---- nft ---- */

static int nft_run(int input, const char *option)
{
    char *const argv[] = {"nft", (char *)option, "-", NULL};
    static char *const environment[] = {"PATH=/usr/sbin:/sbin:/usr/bin:/bin", NULL};
    static const char *const program[] = {"/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"};
    posix_spawn_file_actions_t files;
    pid_t child = -1;
    int err = ENOENT, status = -1;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    for (unsigned i = 0; err == ENOENT && i < sizeof(program) / sizeof(program[0]); i++)
        err = posix_spawn(&child, program[i], &files, NULL, argv, environment);
    posix_spawn_file_actions_destroy(&files);
    if (err) return -err;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EPERM;
}

/* Puts the text in force as one change, or nothing of it (-f), or tries whether that could be (-cf). */
static int nft_apply(const char *text, const char *option)
{
    size_t n = strlen(text);
    int fd = memfd_create("nft", MFD_CLOEXEC), err = 0;
    if (fd < 0) return -errno;
    if (write(fd, text, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET)) err = -EIO;
    if (!err) err = nft_run(fd, option);
    close(fd);
    return err;
}

static void nft_drop(unsigned index)
{
    char text[128];
    /* Made first: what is not there cannot be deleted. */
    snprintf(text, sizeof(text), "table " TABLE "%u\ndelete table " TABLE "%u\n", index, index);
    nft_apply(text, "-f");
}

/* ---- the rules ---- */

static const char *fence_address(const struct bal_addr *a, char text[INET6_ADDRSTRLEN])
{
    return inet_ntop(a->family == 6 ? AF_INET6 : AF_INET, a->byte, text, INET6_ADDRSTRLEN);
}

struct writer {
    FILE *f;
    int begun;
};

static void element(struct writer *w, const char *text)
{
    fprintf(w->f, "%s%s", w->begun++ ? ", " : " elements = { ", text);
}

static void set_begin(struct writer *w, const char *name, int family, const char *type, FILE *f)
{
    *w = (struct writer){.f = f};
    fprintf(f, " set %s%d {\n  type ipv%d_addr%s\n", name, family, family, type);
}

static void set_end(struct writer *w)
{
    fprintf(w->f, "%s }\n", w->begun ? " }\n" : "");
}

static const char *proto(const struct bal_service *s)
{
    return s->proto == BAL_TCP ? "tcp" : "udp";
}

static uint16_t port(const struct bal_service *s)
{
    return s->proto == BAL_ROCE ? 4791 : s->port;
}

/* Which service a set is about: all addresses, those with a port, or those of any port. */
enum about { VIPS, PORTS, ANY };

static void write_services(FILE *f, const struct bal_config *c, const char *name, int family,
                           enum about about)
{
    static const char *const type[] = {"", " . inet_proto . inet_service", " . inet_proto"};
    char text[128], a[INET6_ADDRSTRLEN];
    struct writer w;
    set_begin(&w, name, family, type[about], f);
    for (unsigned i = 0; i < BAL_SERVICES; i++) {
        const struct bal_service *s = &c->service[i];
        if (!s->used || s->vip.family != family || (about != VIPS && !port(s) != (about == ANY))) continue;
        if (about == VIPS)
            snprintf(text, sizeof(text), "%s", fence_address(&s->vip, a));
        else if (about == ANY)
            snprintf(text, sizeof(text), "%s . %s", fence_address(&s->vip, a), proto(s));
        else
            snprintf(text, sizeof(text), "%s . %s . %u", fence_address(&s->vip, a), proto(s), port(s));
        element(&w, text);
    }
    set_end(&w);
}

/* Where NAT's answers come from; a queue pair's have any source port. */
static void fence_write_workers(FILE *f, const struct bal_config *c, const char *name, int family, int roce)
{
    char text[128], a[INET6_ADDRSTRLEN];
    struct writer w;
    set_begin(&w, name, family, roce ? "" : " . inet_proto . inet_service", f);
    for (unsigned i = 0; i < BAL_WORKERS; i++) {
        const struct bal_worker *k = &c->worker[i];
        const struct bal_service *s = &c->service[k->service];
        if (!k->used || s->forward != BAL_NAT || k->addr.family != family || (s->proto == BAL_ROCE) != roce)
            continue;
        if (roce)
            snprintf(text, sizeof(text), "%s", fence_address(&k->addr, a));
        else
            snprintf(text, sizeof(text), "%s . %s . %u", fence_address(&k->addr, a), proto(s),
                     k->port ? k->port : s->port);
        element(&w, text);
    }
    set_end(&w);
}

static void write_rules(FILE *f, int family)
{
    const char *ip = family == 6 ? "ip6" : "ip";
    fprintf(f, "  %s daddr @vip%d fib daddr type != local drop\n", ip, family);
    fprintf(f, "  %s daddr . meta l4proto . th dport @service%d drop\n", ip, family);
    fprintf(f, "  %s daddr . meta l4proto @any%d drop\n", ip, family);
    fprintf(f, "  %s saddr . meta l4proto . th sport @answer%d fib daddr type != local drop\n", ip, family);
    fprintf(f, "  %s saddr @roce%d udp dport 4791 fib daddr type != local drop\n", ip, family);
}

static bool is_seen(const struct gw_bal_port *p)
{
    return p->interface[0] && !strcmp(p->driver, "af_packet");
}

/* Before conntrack (priority raw), so that these packets make no entries there either. */
static char *rules_of(const struct gw_bal_fence *fence, const struct bal_config *c)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return NULL;
    fprintf(f, "table " TABLE "%u\ndelete table " TABLE "%u\ntable " TABLE "%u {\n", fence->index,
            fence->index, fence->index);
    for (int family = 4; family <= 6; family += 2) {
        write_services(f, c, "vip", family, VIPS);
        write_services(f, c, "service", family, PORTS);
        write_services(f, c, "any", family, ANY);
        fence_write_workers(f, c, "answer", family, 0);
        fence_write_workers(f, c, "roce", family, 1);
    }
    fprintf(f, " chain fence {\n");
    for (int family = 4; family <= 6; family += 2) write_rules(f, family);
    fprintf(f, " }\n chain prerouting {\n  type filter hook prerouting priority -300; policy accept;\n");
    for (unsigned i = 0; i < fence->global->ports; i++)
        if (is_seen(&fence->global->port[i]))
            fprintf(f, "  iifname \"%s\" goto fence\n", fence->global->port[i].interface);
    fprintf(f, " }\n}\n");
    fclose(f);
    return text;
}

/* ---- whether one is needed ---- */

static bool is_on(const char *path)
{
    FILE *f = fopen(path, "re");
    int c = f ? fgetc(f) : '0';
    if (f) fclose(f);
    return c != '0' && c != EOF;
}

static bool forwards(const struct gw_bal_global *g)
{
    char path[128];
    for (unsigned i = 0; i < g->ports; i++)
        for (int family = 4; family <= 6 && is_seen(&g->port[i]); family += 2) {
            snprintf(path, sizeof(path), "/proc/sys/net/ipv%d/conf/%s/forwarding", family,
                     g->port[i].interface);
            if (is_on(path)) return true;
        }
    return false;
}

static bool has_nat(const struct gw_bal_model *m)
{
    for (const struct gw_bal_service *s = m->services; s; s = s->next)
        if (s->forward == GW_BAL_NAT) return true;
    return false;
}

int gw_bal_fence_check(const struct gw_bal_global *g, const struct gw_bal_model *m)
{
    int seen = 0;
    for (unsigned i = 0; i < g->ports; i++) seen |= is_seen(&g->port[i]);
    if (g->vrrp && !seen)
        return gw_error(
            -EINVAL, "vrrp yes: the kernel must see the link, so the interface needs the driver af_packet");
    int needed = g->vrrp || (seen && has_nat(m) && forwards(g));
    if (!needed || !nft_apply("add table inet gpuwire_balance\n", "-cf")) return 0;
    if (g->vrrp)
        return gw_error(
            -EPERM,
            "vrrp yes: nftables must keep the kernel from refusing the services' connections: install "
            "nftables, and run as root");
    return gw_error(-EPERM,
                    "the kernel forwards packets (net.ipv4.ip_forward), so it would send the workers' "
                    "answers of NAT a second "
                    "time: install nftables, or set net.ipv4.conf.INTERFACE.forwarding=0 (and net.ipv6's)");
}

void gw_bal_fence_open(struct gw_bal_fence *f, const struct gw_bal_global *g)
{
    *f = (struct gw_bal_fence){.global = g};
    for (unsigned i = 0; i < g->ports && !f->index; i++)
        if (is_seen(&g->port[i])) f->index = if_nametoindex(g->port[i].interface);
}

void gw_bal_fence_set(struct gw_bal_fence *f, const struct bal_config *c)
{
    if (!f->index) return;
    char *rules = rules_of(f, c);
    int err = !rules ? -ENOMEM : f->rules && !strcmp(rules, f->rules) ? 0 : nft_apply(rules, "-f");
    if (err) {
        free(rules);
        if (f->told++ || !forwards(f->global)) return;
        fprintf(stderr,
                "gpuwire balance: nft takes no rules (%s), and the kernel forwards packets: with NAT "
                "connections break. "
                "Install nftables, or set net.ipv4.conf.INTERFACE.forwarding=0\n",
                strerror(-err));
        return;
    }
    free(f->rules);
    f->rules = rules;
}

void gw_bal_fence_close(struct gw_bal_fence *f)
{
    if (f->rules) nft_drop(f->index);
    free(f->rules);
    f->rules = NULL;
}
