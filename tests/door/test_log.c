/* SPDX-License-Identifier: Apache-2.0 */
/* The server's lines: the error log, and the access log's buffer, which loses lines rather than time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/door/access.h"
#include "src/door/log.h"

static void lines_have_time_and_level_or_a_priority(void **state)
{
    (void)state;
    char line[128];
    size_t n = gw_log_format(line, sizeof(line), GW_LOG_WARNING, 0, "model a\033[2J\nb");
    assert_int_equal(n, strlen(line));
    assert_true(line[4] == '-' && line[10] == 'T' && line[19] == '.' && line[23] == 'Z');
    assert_string_equal(line + 24, " gpuwire serve: warning: model a?[2J?b");
    gw_log_format(line, sizeof(line), GW_LOG_DEBUG, 1, "text");
    assert_string_equal(line, "<7>text");
    gw_log_format(line, sizeof(line), GW_LOG_ERROR, 1, "text");
    assert_string_equal(line, "<3>text");
    n = gw_log_format(line, 10, GW_LOG_ERROR, 1, "a text that is too long");
    assert_int_equal(n, 9);
    assert_string_equal(line, "<3>a text");
    assert_int_equal(gw_log_parse("info"), GW_LOG_INFO);
    assert_int_equal(gw_log_parse("information"), -1);
    gw_log_set(GW_LOG_ERROR);
    assert_false(gw_log_says(GW_LOG_WARNING));
    gw_log_set(GW_LOG_DEBUG);
    assert_true(gw_log_says(GW_LOG_DEBUG));
}

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/gpuwire-test-log-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static struct gw_access_request request(const char *id)
{
    return (struct gw_access_request){.client = "user 0",
                                      .door = "http",
                                      .model = "m",
                                      .id = id,
                                      .version = 3,
                                      .rows = 2,
                                      .status = 200,
                                      .in = 10,
                                      .out = 20,
                                      .queue_ns = 1000,
                                      .compute_ns = 2999,
                                      .total_ns = 5000000};
}

/* The file's lines, each of which is JSON with this many fields at least. */
static json_t *read_lines(void)
{
    char line[GW_ACCESS_LINE + 1];
    json_t *all = json_array();
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        json_t *one = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(one);
        for (const char *c = line; *c && *c != '\n'; c++) assert_in_range(*c, ' ', '~');
        json_array_append_new(all, one);
    }
    fclose(f);
    return all;
}

static const char *text_of(json_t *all, size_t i, const char *name)
{
    return json_string_value(json_object_get(json_array_get(all, i), name));
}

static void lines_are_json_whatever_strangers_say(void **state)
{
    (void)state;
    char huge[5000];
    struct gw_access *a;
    memset(huge, '\n', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = 0;
    assert_int_equal(gw_access_open(path, 1 << 16, &a), 0);
    struct gw_access_request r = request("plain");
    gw_access_log(a, &r);
    r.id = "a\"\\\n\033\x7f";
    gw_access_log(a, &r);
    r.id = "gr\xc3\xbc\xc3\x9f";
    gw_access_log(a, &r);
    r.id = "\xff\xc3";
    gw_access_log(a, &r);
    r.id = r.model = r.error = huge;
    gw_access_log(a, &r);
    /* A character that lies across the end of what is kept goes whole. */
    memset(huge, 'x', 127);
    strcpy(huge + 127, "\xc3\xbc");
    r = request(huge);
    gw_access_log(a, &r);
    struct gw_access_session s = {"user 0", "m", "0123abcd", 3, NULL, 0, 0};
    gw_access_log_session(a, &s);
    gw_access_log_session(NULL, &s);
    gw_access_log(NULL, &r);
    assert_int_equal(gw_access_dropped(a), 0);
    gw_access_close(a);

    json_t *all = read_lines(), *first = json_array_get(all, 0);
    assert_int_equal(json_array_size(all), 7);
    assert_string_equal(text_of(all, 0, "id"), "plain");
    assert_string_equal(text_of(all, 0, "version"), "3");
    assert_int_equal(json_integer_value(json_object_get(first, "batch")), 2);
    assert_int_equal(json_integer_value(json_object_get(first, "compute_us")), 2);
    assert_int_equal(json_integer_value(json_object_get(first, "total_us")), 5000);
    assert_null(json_object_get(first, "error"));
    assert_string_equal(text_of(all, 1, "id"), "a\"\\\n\033?");
    assert_string_equal(text_of(all, 2, "id"), "gr\xc3\xbc\xc3\x9f");
    assert_string_equal(text_of(all, 3, "id"), "??");
    assert_in_range(strlen(text_of(all, 4, "id")), 100, 128);
    assert_int_equal(strlen(text_of(all, 5, "id")), 127);
    assert_string_equal(text_of(all, 6, "event"), "open");
    json_decref(all);
}

/* One client's refused requests fill no disk: a line says how many were left out. Others' lines are there. */
static void one_client_does_not_fill_the_log(void **state)
{
    enum { FLOOD = 5000, OTHERS = 20 };
    uint32_t mine = 0, others = 0, answered = 0;
    uint64_t left_out = 0;
    struct gw_access *a;
    struct gw_access_session s = {"user 7", "m", "0123abcd", 3, NULL, 0, 0};
    (void)state;
    assert_int_equal(gw_access_open(path, 16 << 20, &a), 0);
    for (int i = 0; i < FLOOD; i++) {
        struct gw_access_request r = request("flood");
        r.client = "user 7";
        r.status = i % 10 ? 503 : 200;
        gw_access_log(a, &r);
        gw_access_log_session(a, &s);
        if (i % (FLOOD / OTHERS)) continue;
        r = request("other");
        r.status = 400;
        gw_access_log(a, &r);
    }
    gw_access_close(a);
    json_t *all = read_lines(), *line;
    size_t i;
    json_array_foreach(all, i, line)
    {
        const char *event = text_of(all, i, "event"), *client = text_of(all, i, "client");
        int is_mine = !strcmp(client, "user 7"),
            status = (int)json_integer_value(json_object_get(line, "status"));
        if (event && !strcmp(event, "left out"))
            left_out += (uint64_t)json_integer_value(json_object_get(line, "lines"));
        else if (status == 200)
            answered++;
        else
            *(is_mine ? &mine : &others) += 1;
    }
    assert_int_equal(answered, FLOOD / 10);
    assert_int_equal(others, OTHERS);
    assert_in_range(mine, 500, 1000); /* the burst, and what the time has brought */
    assert_int_equal(mine + left_out, FLOOD - FLOOD / 10 + FLOOD);
    json_decref(all);
}

/* The reader of a pipe sleeps: lines are lost, no thread waits, and closing takes a fifth of a second. */
static void a_reader_that_sleeps_costs_lines_and_no_time(void **state)
{
    (void)state;
    enum { LINES = 20000 };
    struct gw_access *a;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(gw_access_open(path, 0, &a), -ENXIO); /* no process has it open */
    assert_non_null(strstr(gw_last_error(), path));
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(gw_access_open(path, 8192, &a), 0);
    struct gw_access_request r = request("x");
    for (int i = 0; i < LINES; i++) gw_access_log(a, &r);
    assert_in_range(gw_access_dropped(a), LINES / 2, LINES);
    gw_access_close(a);
    close(reader);
}

enum { WRITERS = 4, EACH = 2000 };

static void *write_many(void *arg)
{
    struct gw_access_request r = request("one of many");
    for (int i = 0; i < EACH; i++) gw_access_log(arg, &r);
    return NULL;
}

/* While threads write the file is moved away again and again: no line is torn, none is lost or doubled. */
static void threads_write_and_the_file_is_opened_again(void **state)
{
    (void)state;
    pthread_t thread[WRITERS];
    char old[80];
    struct gw_access *a;
    size_t lines = 0;
    assert_int_equal(gw_access_open(path, 4 << 20, &a), 0);
    for (int i = 0; i < WRITERS; i++) assert_int_equal(pthread_create(&thread[i], NULL, write_many, a), 0);
    for (int i = 0; i < 5; i++) {
        snprintf(old, sizeof(old), "%s.%d", path, i);
        assert_int_equal(rename(path, old), 0);
        gw_access_reopen(a);
        for (int k = 0; k < 6000 && access(path, F_OK); k++) usleep(10000);
        assert_int_equal(access(path, F_OK), 0);
    }
    for (int i = 0; i < WRITERS; i++) pthread_join(thread[i], NULL);
    assert_int_equal(gw_access_dropped(a), 0);
    gw_access_close(a);
    json_t *all = read_lines();
    lines = json_array_size(all);
    json_decref(all);
    for (int i = 0; i < 5; i++) {
        snprintf(old, sizeof(old), "%s.%d", path, i);
        assert_int_equal(rename(old, path), 0);
        all = read_lines();
        lines += json_array_size(all);
        json_decref(all);
    }
    assert_int_equal(lines, WRITERS * EACH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_time_and_level_or_a_priority),
        cmocka_unit_test_setup_teardown(lines_are_json_whatever_strangers_say, make_path, remove_path),
        cmocka_unit_test_setup_teardown(one_client_does_not_fill_the_log, make_path, remove_path),
        cmocka_unit_test_setup_teardown(a_reader_that_sleeps_costs_lines_and_no_time, make_path, remove_path),
        cmocka_unit_test_setup_teardown(threads_write_and_the_file_is_opened_again, make_path, remove_path),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
