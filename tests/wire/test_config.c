/* SPDX-License-Identifier: Apache-2.0 */
/* GPUWIRE_NIC and addresses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "softnic/config/config.h"

static struct sn_config config;
static char why[SN_CONFIG_WHY];

static void nothing_said_means_defaults(void **state)
{
    const char *texts[] = {NULL, ""};

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sn_config_parse(texts[i], &config, why), 0);
        assert_false(config.has_addr);
        assert_int_equal(config.poll, SN_POLL_ADAPTIVE);
        assert_int_equal(config.cpu, -1);
        assert_false(config.hostile || config.overtake || config.by_index);
        assert_false(config.no_gso || config.no_ecn || config.no_copy_kernel);
        assert_false(config.has_seed);
        assert_int_equal(config.mtu, 0);
        assert_false(sn_faults_any(&config.fault));
    }
}

static void every_key_is_read(void **state)
{
    char text[SN_ADDR_TEXT];

    (void)state;
    assert_int_equal(sn_config_parse("addr=127.0.0.9,poll=busy,cpu=3,hostile=1,seed=18446744073709551615,mtu="
                                     "2048,gso=0,ecn=0,gpucopy=engine,"
                                     "loss=1%,dup=.5,reorder=0.25,corrupt=1,delay=20us",
                                     &config, why),
                     0);
    assert_true(config.has_addr);
    assert_string_equal(sn_addr_text(&config.addr, text), "127.0.0.9");
    assert_true(sn_gid_is_ipv4(config.addr.gid));
    assert_int_equal(config.poll, SN_POLL_BUSY);
    assert_int_equal(config.cpu, 3);
    assert_true(config.hostile && !config.overtake);
    assert_true(config.no_gso && config.no_ecn && config.no_copy_kernel);
    assert_true(config.has_seed);
    assert_true(config.seed == UINT64_MAX);
    assert_int_equal(config.mtu, 2048);
    assert_true(config.fault.tx.loss > 0.0099 && config.fault.tx.loss < 0.0101);
    assert_true(config.fault.tx.dup == 0.5 && config.fault.tx.reorder == 0.25 &&
                config.fault.tx.corrupt == 1);
    assert_int_equal(config.fault.tx.delay_ns, 20000);
    assert_int_equal(sn_config_parse("delay=3ms,addr=::1", &config, why), 0);
    assert_int_equal(config.fault.tx.delay_ns, 3000000);
    assert_string_equal(sn_addr_text(&config.addr, text), "::1");
    assert_int_equal(sn_config_parse("delay=7,poll=adaptive", &config, why), 0);
    assert_int_equal(config.fault.tx.delay_ns, 7);
    assert_int_equal(config.threads, 1);
    assert_int_equal(sn_config_parse("hostile=2,ring=index,atomics=ib", &config, why), 0);
    assert_true(config.hostile && config.overtake && config.by_index);
    assert_true(config.no_masked && !config.no_atomics);
}

static void more_threads_are_for_sockets(void **state)
{
    (void)state;
    assert_int_equal(sn_config_parse("threads=16", &config, why), 0);
    assert_int_equal(config.threads, 16);
    assert_int_equal(sn_config_parse("threads=0", &config, why), -EINVAL);
    assert_non_null(strstr(why, "1 to 16"));
    assert_int_equal(sn_config_parse("threads=17", &config, why), -EINVAL);
    assert_int_equal(sn_config_parse("wire=eth,if=eth7,addr=192.0.2.7,threads=2", &config, why), -EINVAL);
    assert_non_null(strstr(why, "wire=eth has one thread"));
    assert_int_equal(sn_config_parse("wire=eth,if=eth7,addr=192.0.2.7,threads=1", &config, why), 0);
}

static void an_ethernet_wire_is_read(void **state)
{
    (void)state;
    assert_int_equal(sn_config_parse("wire=eth,addr=192.0.2.7/24,if=eth7,mac=02:aB:00:00:00:01,gw=192.0.2.1",
                                     &config, why),
                     0);
    assert_true(config.eth.on && config.eth.has_prefix && config.eth.has_mac && config.eth.has_gateway);
    assert_string_equal(config.eth.interface, "eth7");
    assert_int_equal(config.eth.prefix, 24);
    assert_int_equal(config.eth.mac[1], 0xab);
    assert_int_equal(config.eth.gateway.gid[15], 1);
    assert_int_equal(
        sn_config_parse("wire=eth,addr=fd00::7/64,bind=127.0.0.1:1,peer=127.0.0.2:65535", &config, why), 0);
    assert_int_equal(ntohs(config.eth.peer.sin_port), 65535);
    assert_int_equal(sn_config_parse("wire=udp,addr=192.0.2.7", &config, why), 0);
    assert_false(config.eth.on);
}

/* Each is refused with a line that has the word in it. */
static void mistakes_are_named(void **state)
{
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"los=1%", "'los'; there are addr, poll"},
        {"loss", "loss="},
        {"wire=tcp", "udp or eth"},
        {"wire=eth", "addr=IP/PREFIX"},
        {"wire=eth,addr=10.0.0.1", "if=NAME"},
        {"wire=eth,addr=10.0.0.1,bind=127.0.0.1:1", "if=NAME"},
        {"wire=eth,addr=10.0.0.1,if=x,bind=127.0.0.1:1,peer=127.0.0.1:2", "one link"},
        {"wire=eth,addr=10.0.0.1,if=x,gw=10.0.0.2", "the subnet"},
        {"wire=eth,addr=10.0.0.1/24,if=x,gw=fd00::2", "two kinds"},
        {"wire=eth,addr=10.0.0.1/33,if=x", "addr takes"},
        {"wire=eth,addr=fd00::1/129,if=x", "addr takes"},
        {"wire=eth,addr=10.0.0.1,if=a-name-that-is-too-long", "an interface"},
        {"wire=eth,addr=10.0.0.1,bind=127.0.0.1,peer=127.0.0.1:2", "IPv4:PORT"},
        {"wire=eth,addr=10.0.0.1,bind=127.0.0.1:65536", "IPv4:PORT"},
        {"wire=eth,addr=10.0.0.1,mac=01:00:00:00:00:01", "MAC"},
        {"wire=eth,addr=10.0.0.1,mac=02:00:00:00:00:0g", "MAC"},
        {"if=x", "for wire=eth"},
        {"addr=10.0.0.1/8", "for wire=eth"},
        {"loss=", "probability"},
        {"loss=.", "probability"},
        {"loss=1.01", "probability"},
        {"loss=101%", "probability"},
        {"loss=-1", "probability"},
        {"loss=0,1", "'1'"},
        {"loss=1%%", "probability"},
        {"poll=fast", "adaptive or busy"},
        {"cpu=-1", "cpu takes"},
        {"cpu=100000", "cpu takes"},
        {"gso=yes", "0 or 1"},
        {"gpucopy=cpu", "kernel or engine"},
        {"ecn=2", "0 or 1"},
        {"hostile=3", "0, 1 or 2"},
        {"ring=both", "record or index"},
        {"atomics=all", "masked, ib or none"},
        {"seed=18446744073709551616", "seed takes"},
        {"seed=0x10", "seed takes"},
        {"mtu=1500", "256, 512"},
        {"mtu=0", "256, 512"},
        {"delay=2s", "delay takes"},
        {"delay=1001ms", "delay takes"},
        {"delay=us", "delay takes"},
        {"delay=99999999999999999999999999", "delay takes"},
        {"addr=", "addr takes"},
        {"addr=localhost", "addr takes"},
        {"addr=127.0.0.1.1", "addr takes"},
        {"addr=0.0.0.0", "addr takes"},
        {"addr=224.0.0.1", "addr takes"},
        {"addr=255.255.255.255", "addr takes"},
        {"addr=::", "addr takes"},
        {"addr=ff02::1", "addr takes"},
        {"addr=fe80::1", "addr takes"},
        {"addr=fe80::1%nosuchif", "addr takes"},
        {"addr=::1%lo", "addr takes"},
        {"addr=1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111", "addr takes"},
        {"seed=1,seed=2", "twice"},
        {",,", "unknown key ''"},
        {"=1", "unknown key ''"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(sn_config_parse(bad[i].text, &config, why), -EINVAL);
        if (!strstr(why, bad[i].word) || strchr(why, '\n')) fail_msg("%s: %s", bad[i].text, why);
    }
}

static void long_text_is_cut_and_not_overrun(void **state)
{
    char text[4096];

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    assert_int_equal(sn_config_parse(text, &config, why), -EINVAL);
    assert_non_null(strstr(why, "too long"));
    text[100] = 0;
    assert_int_equal(sn_config_parse(text, &config, why), -EINVAL);
    text[50] = '=';
    assert_int_equal(sn_config_parse(text, &config, why), -EINVAL);
    assert_non_null(memchr(why, 0, sizeof(why)));
}

static void the_default_address_can_be_had(void **state)
{
    struct sn_addr addr;
    char text[SN_ADDR_TEXT];

    (void)state;
    sn_addr_default(&addr);
    printf("default address %s, path MTU %u\n", sn_addr_text(&addr, text), sn_addr_path_mtu(&addr));
    assert_int_equal(sn_addr_parse(text, &addr), 0);
}

static void the_mtu_is_the_interfaces(void **state)
{
    struct sn_addr addr;

    (void)state;
    assert_int_equal(sn_addr_parse("127.0.0.1", &addr), 0);
    assert_int_equal(sn_addr_path_mtu(&addr), 4096);
    assert_int_equal(sn_addr_parse("127.1.2.3", &addr), 0); /* lo has the whole net */
    assert_int_equal(sn_addr_path_mtu(&addr), 4096);
    assert_int_equal(sn_addr_parse("192.0.2.1", &addr), 0); /* no host has it: as for Ethernet */
    assert_int_equal(sn_addr_path_mtu(&addr), 1024);
}

static void socket_addresses_go_round(void **state)
{
    static const char *texts[] = {"127.0.0.1", "10.1.2.3", "::1", "2001:db8::1"};
    struct sockaddr_in6 sa;
    struct sn_addr addr;
    uint8_t gid[16];
    uint16_t port;

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sn_addr_parse(texts[i], &addr), 0);
        sn_addr_to_sock(&addr, 0xc012, &sa);
        assert_int_equal(sa.sin6_family, i < 2 ? AF_INET : AF_INET6);
        assert_true(sn_addr_from_sock(&sa, gid, &port));
        assert_memory_equal(gid, addr.gid, 16);
        assert_int_equal(port, 0xc012);
    }
    sa.sin6_family = AF_UNIX;
    assert_false(sn_addr_from_sock(&sa, gid, &port));
}

static void several_nics_are_told_apart(void **state)
{
    const char *two = "addr=127.0.0.2,mtu=1024;addr=127.0.0.3";
    char many[256] = "";

    (void)state;
    assert_int_equal(sn_config_count(NULL, why), 1);
    assert_int_equal(sn_config_count("", why), 1);
    assert_int_equal(sn_config_count("mtu=512", why), 1);
    assert_int_equal(sn_config_count(two, why), 2);
    assert_int_equal(sn_config_count(";;hostile=1", why), 3); /* two of nothing but defaults */
    assert_int_equal(sn_config_nth(two, 0, &config, why), 0);
    assert_int_equal(config.addr.gid[15], 2);
    assert_int_equal(config.mtu, 1024);
    assert_int_equal(sn_config_nth(two, 1, &config, why), 0);
    assert_int_equal(config.addr.gid[15], 3);
    assert_int_equal(config.mtu, 0); /* the first one's is not the second's */
    assert_int_equal(sn_config_nth(two, 2, &config, why), -EINVAL);
    assert_non_null(strstr(why, "no NIC 2"));
    assert_int_equal(sn_config_count("mtu=512;mtu=513", why), -EINVAL);
    assert_non_null(strstr(why, "mtu=513"));
    for (int i = 0; i < SN_MAX_NICS - 1; i++) strcat(many, ";");
    assert_int_equal(sn_config_count(many, why), SN_MAX_NICS);
    strcat(many, ";");
    assert_int_equal(sn_config_count(many, why), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_said_means_defaults),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(more_threads_are_for_sockets),
        cmocka_unit_test(an_ethernet_wire_is_read),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(long_text_is_cut_and_not_overrun),
        cmocka_unit_test(the_default_address_can_be_had),
        cmocka_unit_test(the_mtu_is_the_interfaces),
        cmocka_unit_test(socket_addresses_go_round),
        cmocka_unit_test(several_nics_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
