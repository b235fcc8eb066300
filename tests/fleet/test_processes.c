/* SPDX-License-Identifier: Apache-2.0 */
/* Workers as processes of their own, under load: one is killed, one ends in order, one is replaced. No
 * request may be lost. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/fleet/whole_rig.h"

enum { PROCESSES = 4, ARGUMENTS = 24, IDENTITY_BYTES = 224 * 224 * 4 };

static pid_t pid[PROCESSES]; /* 0: it does not run */
static char folder[] = "/tmp/fleetXXXXXX";

/* ---- processes */

static void begin(int i, const char *const *argv)
{
    int out[2];
    char line[512];
    size_t n = 0;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid[i] = fork();
    assert_true(pid[i] >= 0);
    if (!pid[i]) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], STDOUT_FILENO);
        if (!getenv("GW_TEST_SAY")) dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        execv(argv[0], (char **)(uintptr_t)argv);
        _exit(127);
    }
    close(out[1]);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    for (int64_t end = rig_now() + 60 * SECOND; !n || line[n - 1] != '\n';) { /* it is ready */
        ssize_t got = read(out[0], line + n, 1);
        if (!got || rig_now() > end) fail_msg("%s %s has not begun", argv[1], argv[2]);
        n += got > 0 && n < sizeof(line) - 1;
        if (got < 0) whole_turn();
    }
    close(out[0]);
}

static bool ended(int i, int *status)
{
    if (waitpid(pid[i], status, WNOHANG) != pid[i]) return false;
    pid[i] = 0;
    return true;
}

static void emulate(int i, const char *name)
{
    char worker[FLEET_NAME];
    snprintf(worker, sizeof(worker), "%s-0", name);
    whole_expect(worker);
    const char *const argv[ARGUMENTS] = {getenv("GPUWIRE"),
                                         "fleet",
                                         "emulate",
                                         "--controller",
                                         whole.controllers,
                                         "--fleet-name",
                                         "f",
                                         "--name",
                                         name,
                                         "--models",
                                         "6",
                                         "--profile",
                                         folder,
                                         "--gpu-pages",
                                         "8"};
    begin(i, argv);
}

static void serve(int i, const char *name)
{
    static char weights[sizeof(folder) + 8], models[sizeof(folder) + 8];
    whole_expect(name);
    snprintf(weights, sizeof(weights), "%s.d", folder);
    snprintf(models, sizeof(models), "%s.m", folder);
    const char *const argv[ARGUMENTS] = {getenv("GPUWIRE"), "serve", "--fleet",        whole.controllers,
                                         "--fleet-name",    "f",     "--worker",       name,
                                         "--exec",          "cpu",   "--port",         "0",
                                         "--models",        models,  "--fleet-folder", weights,
                                         "--gpu-pages",     "16",    "--host-pages",   "32"};
    begin(i, argv);
}

static int stop(void **state)
{
    (void)state;
    for (int i = 0; i < PROCESSES; i++) {
        if (!pid[i]) continue;
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
        pid[i] = 0;
    }
    whole_stop();
    return 0;
}

/* ---- tests */

static void test_emulated(void **state)
{
    (void)state;
    int status = 0;
    whole_start("p", 6, 64);
    emulate(0, "a");
    emulate(1, "b");
    emulate(2, "c");
    whole_load(200);
    kill(pid[1], SIGKILL);
    whole_load_until(ended(1, &status));
    whole_load(200);
    emulate(1, "b"); /* another life of the same name: b-0 */
    kill(pid[0], SIGTERM);
    whole_load_until(ended(0, &status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    whole_load(200);
    whole_settle();
}

/* The engine that computes: a rolling upgrade. */
static void test_served(void **state)
{
    (void)state;
    int status = 0;
    whole_start("identity", 1, IDENTITY_BYTES);
    whole.gap_ns = 5 * MS;
    serve(0, "a");
    /* A client that asked before hears that no worker has such a model, and believes it for a second. */
    for (int64_t end = rig_now() + 3 * SECOND / 2; rig_now() < end;) whole_turn();
    whole_load(60);
    serve(1, "b");
    whole_load(60);
    kill(pid[0], SIGTERM);
    whole_load_until(ended(0, &status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    whole_load(60);
    whole_settle();
}

/* A worker whose NIC dies leaves at once, and ends. Its clients go elsewhere. */
static void test_nic_dies(void **state)
{
    (void)state;
    char command[FLEET_ADDRESS + 64];
    int status = 0;
    whole_start("identity", 1, IDENTITY_BYTES);
    whole.gap_ns = 5 * MS;
    serve(0, "a");
    for (int64_t end = rig_now() + 3 * SECOND / 2; rig_now() < end;) whole_turn(); /* as above */
    whole_load(60);
    serve(1, "b");
    whole_load(60);
    snprintf(command, sizeof(command), "%s nic --pid %d --event device-fatal >/dev/null", getenv("GPUWIRE"),
             pid[0]);
    assert_int_equal(system(command), 0);
    whole_load_until(ended(0, &status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    whole_load(60);
    whole_settle();
}

static int open_all(void **state)
{
    (void)state;
    static const char profile[] =
        "name p\nexec_ns 1000000 1100000 1250000 1500000 2000000\nspread_ns 100000\n"
        "load_ns 2000000\npages 2\nrequest_bytes 64\nanswer_bytes 16\n";
    char models[sizeof(folder) + 24];
    int fd = mkstemp(folder);
    snprintf(models, sizeof(models), "%s.m", folder);
    if (mkdir(models, 0700)) return -1;
    snprintf(models, sizeof(models), "%s.m/identity", folder);
    if (symlink(GW_TEST_MODELS "/identity", models)) return -1; /* the one that is planned at once */
    if (fd < 0 || write(fd, profile, strlen(profile)) != (ssize_t)strlen(profile)) return -1;
    return close(fd);
}

static int close_all(void **state)
{
    (void)state;
    char command[sizeof(folder) * 3 + 32];
    snprintf(command, sizeof(command), "rm -rf %s %s.d %s.m", folder, folder, folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_emulated, stop),
        cmocka_unit_test_teardown(test_served, stop),
        cmocka_unit_test_teardown(test_nic_dies, stop),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
