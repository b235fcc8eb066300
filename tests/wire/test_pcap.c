/* SPDX-License-Identifier: Apache-2.0 */
/* A capture's file, block by block. tests/integration/test_pcap.sh has tshark read one. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "softnic/config/addr.h"
#include "softnic/wire/pcap.h"
#include "src/roce/hdr.h"
#include "src/roce/icrc.h"

enum { MOST = 9 << 20 };
static char folder[] = "/tmp/gpuwire-pcap.XXXXXX", name[128], why[256];
static uint8_t file[MOST];
static const uint8_t gid[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1}, peer[16] = {[10] = 0xff, 0xff, 10, 0, 0, 2};
static const uint8_t gid6[16] = {0x20, 1, 0xd, 0xb8, [15] = 1}, peer6[16] = {0x20, 1, 0xd, 0xb8, [15] = 2};

static int up(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(name, sizeof(name), "%s/x.pcapng", folder);
    return 0;
}

static int down(void **state)
{
    (void)state;
    unlink(name);
    return rmdir(folder);
}

static size_t read_file(const char *path)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, file, sizeof(file));

    assert_true(n > 0);
    close(fd);
    return (size_t)n;
}

static uint32_t word(size_t at)
{
    uint32_t v;

    memcpy(&v, file + at, 4);
    return v;
}

static uint64_t ones(uint64_t s, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) s += i & 1 ? p[i] : (uint32_t)p[i] << 8;
    while (s >> 16) s = (s & 0xffff) + (s >> 16);
    return s;
}

/* Every length, checksum and ICRC of the packet at file + at. */
static void check_packet(size_t at, uint32_t len, uint16_t id)
{
    const uint8_t *ip = file + at;
    bool v6 = ip[0] >> 4 == 6;
    size_t head = v6 ? 40 : 20, udp_len = len - head, payload;
    struct roce_path path;
    uint64_t s = ones(17 + udp_len, ip + (v6 ? 8 : 12), v6 ? 32 : 8);

    if (!v6) assert_int_equal(ones(0, ip, 20), 0xffff);
    assert_int_equal(ones(s, ip + head, udp_len), 0xffff);
    assert_int_equal(roce_path_of_packet(ip, len, &path, &payload), head + 8);
    assert_int_equal(payload + head + 8, len);
    assert_int_equal(path.dport, ROCE_UDP_PORT);
    if (!v6) assert_int_equal(path.ip_id, id);
    if (!v6) assert_int_equal(path.frag_off, ROCE_IP_DF);
    assert_true(roce_icrc_ok(&path, ip + head + 8, payload));
}

/* Walks the file. Returns how many packets it has. */
static unsigned check_file(size_t size, uint16_t id)
{
    unsigned packets = 0;
    size_t at = 0;

    assert_int_equal(word(0), 0x0a0d0d0a);
    assert_int_equal(word(8), 0x1a2b3c4d);
    while (at < size) {
        uint32_t len = word(at + 4);

        assert_true(len % 4 == 0 && len >= 12 && at + len <= size);
        assert_int_equal(word(at + len - 4), len);
        if (word(at) == 1) assert_int_equal(word(at + 8), 101);
        if (word(at) == 6) {
            assert_int_equal(word(at + 20), word(at + 24));
            check_packet(at + 28, word(at + 20), id);
            packets++;
        }
        at += len;
    }
    assert_int_equal(at, size);
    return packets;
}

static void make(struct sn_frame *f, uint8_t *data, uint32_t len, bool v6, uint16_t id, uint64_t number)
{
    struct roce_path path = {
        .ipv6 = v6, .sport = 0xc012, .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF, .ip_id = id};

    *f = (struct sn_frame){.sport = 0xc012, .ecn = 1, .len = len, .data = data};
    memcpy(f->src_gid, v6 ? gid6 : gid, 16);
    memcpy(f->dst_gid, v6 ? peer6 : peer, 16);
    memcpy(path.src, v6 ? gid6 : gid + 12, v6 ? 16 : 4);
    memcpy(path.dst, v6 ? peer6 : peer + 12, v6 ? 16 : 4);
    for (uint32_t i = 0; i < len; i++) data[i] = (uint8_t)(number * 7 + i);
    data[0] = ROCE_ACK;
    roce_icrc_end(roce_icrc(&path, data, len), data + len - 4);
}

static void packets_are_as_on_a_network(void **state)
{
    static const uint32_t lens[] = {16, 20, 48, 1040, 4096 + 28};
    static uint8_t data[4200];
    struct sn_pcap *c;
    struct sn_pcap_stats stats;
    struct sn_frame f;

    (void)state;
    for (int v6 = 0; v6 < 2; v6++) {
        assert_int_equal(sn_pcap_open(name, 0, gid, &c, why), 0);
        for (unsigned i = 0; i < 500; i++) {
            make(&f, data, lens[i % 5], v6, 0x1234, i);
            sn_pcap_frames(c, &f, 1, i & 1, sn_pcap_now());
        }
        sn_pcap_flush(c, 5000);
        sn_pcap_stats(c, &stats);
        assert_int_equal(stats.frames, 500);
        assert_int_equal(stats.missing, 0);
        struct stat st;
        assert_int_equal(stat(name, &st),
                         0); /* all is there before it is closed: a killed process loses nothing */
        assert_int_equal(st.st_size, stats.bytes);
        sn_pcap_close(c);
        assert_int_equal(check_file(read_file(name), 0x1234), 500);
    }
}

static void a_capture_stays_below_its_limit(void **state)
{
    static uint8_t data[4200];
    struct sn_pcap *c;
    struct sn_frame f;
    size_t size;

    (void)state;
    assert_int_equal(sn_pcap_open(name, 100000, gid, &c, why), 0);
    for (unsigned i = 0; i < 500; i++) {
        make(&f, data, 1040, false, 0, i);
        sn_pcap_frames(c, &f, 1, true, sn_pcap_now());
    }
    sn_pcap_close(c);
    size = read_file(name);
    assert_in_range(size, 98000, 100000);
    assert_in_range(check_file(size, 0), 80, 95);
}

static void names_are_the_processes_own(void **state)
{
    char pattern[160], own[180];
    struct sn_pcap *c;

    (void)state;
    snprintf(pattern, sizeof(pattern), "%s/%%p.pcapng", folder);
    snprintf(own, sizeof(own), "%s/%d.pcapng", folder, (int)getpid());
    assert_int_equal(sn_pcap_open(pattern, 0, gid, &c, why), 0);
    assert_string_equal(sn_pcap_name(c), own);
    sn_pcap_close(c);
    assert_int_equal(check_file(read_file(own), 0), 0);
    unlink(own);
}

static void what_cannot_be_written_is_said(void **state)
{
    static uint8_t data[4200];
    struct sn_pcap *c, *second;
    struct sn_pcap_stats stats;
    struct sn_frame f;

    (void)state;
    assert_int_not_equal(sn_pcap_open("/nonexistent/x", 0, gid, &c, why), 0);
    assert_non_null(strstr(why, "/nonexistent/x: No such file"));
    assert_int_equal(sn_pcap_open(name, 0, gid, &c, why), 0);
    assert_int_equal(sn_pcap_open(name, 0, gid, &second, why), -EBUSY);
    assert_non_null(strstr(why, "%p"));
    sn_pcap_close(c);
    /* A full disk: one line, and the program goes on. */
    assert_int_equal(sn_pcap_open("/dev/full", 0, gid, &c, why), 0);
    make(&f, data, 1040, false, 0, 1);
    sn_pcap_frames(c, &f, 1, true, sn_pcap_now());
    sn_pcap_flush(c, 5000);
    sn_pcap_stats(c, &stats);
    assert_int_equal(stats.stopped, 1);
    sn_pcap_frames(c, &f, 1, true, sn_pcap_now());
    sn_pcap_close(c);
}

/* In a folder where everybody may write, what a stranger has put there under the name. */
static void what_a_stranger_planted_is_left_alone(void **state)
{
    enum { STRANGER = 65534 };
    static const char kept[] = "not to be lost";
    char target[160], bait[160], text[64] = "";
    struct sn_pcap *c;
    int fd;

    (void)state;
    snprintf(target, sizeof(target), "%s.target", name);
    snprintf(bait, sizeof(bait), "%s.bait", name);
    fd = open(target, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, kept, sizeof(kept)), sizeof(kept));

    assert_int_equal(symlink(target, bait), 0);
    assert_int_equal(sn_pcap_open(bait, 0, gid, &c, why), -EPERM);
    assert_non_null(strstr(why, "it is a link"));
    unlink(bait);
    assert_int_equal(symlink("/nonexistent-target", bait), 0);
    assert_int_equal(sn_pcap_open(bait, 0, gid, &c, why), -EPERM);
    unlink(bait);
    assert_int_equal(link(target, bait), 0);
    assert_int_equal(sn_pcap_open(bait, 0, gid, &c, why), -EPERM);
    assert_non_null(strstr(why, "hard links"));
    unlink(bait);
    if (geteuid() == 0) {
        assert_int_equal(mkfifo(bait, 0666), 0);
        assert_int_equal(chown(bait, STRANGER, STRANGER), 0);
        assert_int_equal(sn_pcap_open(bait, 0, gid, &c, why), -EPERM);
        assert_non_null(strstr(why, "another user's"));
        unlink(bait);
        assert_int_equal(chown(target, STRANGER, STRANGER), 0);
        assert_int_equal(sn_pcap_open(target, 0, gid, &c, why), -EPERM);
        assert_non_null(strstr(why, "another user's"));
    }
    assert_int_equal(pread(fd, text, sizeof(text), 0), sizeof(kept));
    assert_string_equal(text, kept);
    close(fd);
    unlink(target);
}

static void a_pipe_of_ones_own_will_do(void **state)
{
    char pipe_name[160], first[4];
    struct sn_pcap *c;
    int fd;

    (void)state;
    snprintf(pipe_name, sizeof(pipe_name), "%s.pipe", name);
    assert_int_equal(mkfifo(pipe_name, 0600), 0);
    assert_int_equal(sn_pcap_open(pipe_name, 0, gid, &c, why), 0);
    fd = open(pipe_name, O_RDONLY);
    assert_true(fd >= 0);
    sn_pcap_flush(c, 5000);
    assert_int_equal(read(fd, first, sizeof(first)), sizeof(first));
    close(fd);
    sn_pcap_close(c);
    unlink(pipe_name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_are_as_on_a_network),
        cmocka_unit_test(a_capture_stays_below_its_limit),
        cmocka_unit_test(names_are_the_processes_own),
        cmocka_unit_test(what_a_stranger_planted_is_left_alone),
        cmocka_unit_test(a_pipe_of_ones_own_will_do),
        cmocka_unit_test(what_cannot_be_written_is_said),
    };
    return cmocka_run_group_tests(tests, up, down);
}
