/* SPDX-License-Identifier: Apache-2.0 */
/* The program's handlers of SIGSEGV and SIGBUS after the NIC's. Every test is a process of its own, as it
 * may end so. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "softnic/mem/guard.h"
#include "softnic/mem/handlers.h"

/* The system's sigaction, as a program calls it that makes the system call itself: nothing leads it to us. */
int __sigaction(int sig, const struct sigaction *action, struct sigaction *old);

enum { PAGE = 4096, ENDED_BY_SIGNAL = 1000 };

static volatile int calls, chained_calls;
static volatile bool masked_usr1, masked_itself, on_own_stack;
static char *nowhere;
static char own_stack[64 << 10];
static sigjmp_buf back;
static struct sigaction chain;

/* A test fails with a line and a number of its own; 0 is success. */
#define CHECK(what)                                                                                          \
    do {                                                                                                     \
        if (what) break;                                                                                     \
        fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what);                                           \
        _exit(1);                                                                                            \
    } while (0)

/* Runs a test in a child: its exit status, or ENDED_BY_SIGNAL + the signal. */
static int in_child(void (*test)(void))
{
    const struct rlimit no_core = {0, 0};
    int status;
    pid_t pid = fork();

    if (!pid) {
        setrlimit(RLIMIT_CORE, &no_core);
        alarm(60); /* endless recursion and endless faults end too */
        /* The tests are not about a sanitizer's handlers there. */
        CHECK(signal(SIGSEGV, SIG_DFL) != SIG_ERR && signal(SIGBUS, SIG_DFL) != SIG_ERR);
        nowhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(nowhere != MAP_FAILED);
        test();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? ENDED_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool guarded(void)
{
    char byte;

    return sn_guard_copy(&byte, nowhere, 1) == -EFAULT;
}

static void fault(void)
{
    *(volatile char *)nowhere = 1;
}

/* ---- handlers of the program's ------------------------------------------------------------------------- */

/* Mends the cause, so that the access goes on. */
static void mend(int sig, siginfo_t *info, void *ctx)
{
    sigset_t now;
    char here;

    (void)ctx;
    calls++;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    masked_usr1 = sigismember(&now, SIGUSR1);
    masked_itself = sigismember(&now, sig);
    on_own_stack = &here >= own_stack && &here < own_stack + sizeof(own_stack);
    if (info->si_addr == nowhere) mprotect(nowhere, PAGE, PROT_READ | PROT_WRITE);
}

static void mend_plainly(int sig)
{
    (void)sig;
    calls++;
    mprotect(nowhere, PAGE, PROT_READ | PROT_WRITE);
}

static void jump_out(int sig)
{
    (void)sig;
    calls++;
    siglongjmp(back, 1);
}

/* As a run-time system's: what it does not know goes to the handler that was there before. */
static void pass_along(int sig, siginfo_t *info, void *ctx)
{
    chained_calls++;
    if (chain.sa_flags & SA_SIGINFO)
        chain.sa_sigaction(sig, info, ctx);
    else if (chain.sa_handler == SIG_DFL)
        signal(sig, SIG_DFL);
    else if (chain.sa_handler != SIG_IGN)
        chain.sa_handler(sig);
}

static struct sigaction with(void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction a = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};

    sigemptyset(&a.sa_mask);
    return a;
}

static struct sigaction plain(void (*handler)(int), int flags)
{
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags};

    sigemptyset(&a.sa_mask);
    return a;
}

static void set(int sig, struct sigaction a)
{
    CHECK(sn_handlers_action(sig, &a, NULL) == 0);
}

static struct sigaction get(int sig)
{
    struct sigaction a;

    CHECK(sn_handlers_action(sig, NULL, &a) == 0);
    return a;
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static void later(void)
{
    CHECK(sn_guard_install() == 0);
    set(SIGSEGV, with(mend, 0));
    CHECK(guarded() && calls == 0);
    fault();
    CHECK(calls == 1 && guarded() == false); /* it is mended now */
}

static void later_by_signal(void)
{
    CHECK(sn_guard_install() == 0);
    set(SIGSEGV, plain(mend_plainly, SA_RESTART));
    CHECK(guarded() && calls == 0);
    fault();
    CHECK(calls == 1);
}

static void a_handler_set_later_leaves_the_guard(void **state)
{
    (void)state;
    assert_int_equal(in_child(later), 0);
    assert_int_equal(in_child(later_by_signal), 0);
}

static void own_handler_reported(void)
{
    struct sigaction first = with(mend, SA_ONSTACK), second = plain(jump_out, SA_NODEFER), old;

    sigaddset(&first.sa_mask, SIGUSR1);
    CHECK(__sigaction(SIGBUS, &second, NULL) == 0); /* before the NIC */
    CHECK(sn_guard_install() == 0);
    CHECK(get(SIGSEGV).sa_handler == SIG_DFL);
    CHECK(get(SIGBUS).sa_handler == jump_out);
    CHECK(sn_handlers_action(SIGSEGV, &first, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sn_handlers_action(SIGSEGV, &second, &old) == 0 && old.sa_sigaction == mend);
    CHECK((old.sa_flags & SA_ONSTACK) && (old.sa_flags & SA_SIGINFO) && sigismember(&old.sa_mask, SIGUSR1));
    CHECK(sn_handlers_action(SIGSEGV, &old, &old) == 0 &&
          old.sa_handler == jump_out); /* one struct for both */
    CHECK(get(SIGSEGV).sa_sigaction == mend && guarded());
    CHECK(sn_handlers_action(SIGKILL, &first, NULL) == -1 && errno == EINVAL);
}

static void the_program_sees_its_own_handlers(void **state)
{
    (void)state;
    assert_int_equal(in_child(own_handler_reported), 0);
}

static void mask_and_stack(void)
{
    stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof(own_stack)};
    struct sigaction a = with(mend, SA_ONSTACK);

    CHECK(sn_guard_install() == 0 && sigaltstack(&stack, NULL) == 0);
    sigaddset(&a.sa_mask, SIGUSR1);
    set(SIGSEGV, a);
    fault();
    CHECK(calls == 1 && masked_usr1 && masked_itself && on_own_stack);
    mprotect(nowhere, PAGE, PROT_NONE);
    CHECK(guarded());
    set(SIGSEGV, with(mend, SA_NODEFER));
    fault();
    CHECK(calls == 2 && !masked_usr1 && !masked_itself && !on_own_stack);
    mprotect(nowhere, PAGE, PROT_NONE);
    CHECK(guarded());
}

static void a_handler_has_its_mask_and_its_stack(void **state)
{
    (void)state;
    assert_int_equal(in_child(mask_and_stack), 0);
}

static void once_only(void)
{
    CHECK(sn_guard_install() == 0);
    set(SIGSEGV, with(mend, (int)SA_RESETHAND));
    CHECK(guarded() && calls == 0);
    fault();
    CHECK(calls == 1 && get(SIGSEGV).sa_handler == SIG_DFL);
    mprotect(nowhere, PAGE, PROT_NONE);
    CHECK(guarded()); /* the NIC's does not go with it */
    fault();
}

static void a_handler_for_once_is_called_once(void **state)
{
    (void)state;
    assert_int_equal(in_child(once_only), ENDED_BY_SIGNAL + SIGSEGV);
}

static void sent_and_ignored(void)
{
    CHECK(sn_guard_install() == 0);
    set(SIGSEGV, plain(SIG_IGN, 0));
    set(SIGBUS, plain(SIG_IGN, 0));
    CHECK(raise(SIGSEGV) == 0 && raise(SIGBUS) == 0 && kill(getpid(), SIGSEGV) == 0);
    CHECK(get(SIGSEGV).sa_handler == SIG_IGN && guarded());
}

static void ignored_before(void)
{
    CHECK(signal(SIGSEGV, SIG_IGN) != SIG_ERR && sn_guard_install() == 0);
    CHECK(raise(SIGSEGV) == 0 && get(SIGSEGV).sa_handler == SIG_IGN && guarded());
}

static void ignored_fault(void)
{
    CHECK(sn_guard_install() == 0);
    set(SIGSEGV, plain(SIG_IGN, 0));
    fault();
}

static void an_ignored_signal_that_was_sent_is_ignored(void **state)
{
    (void)state;
    assert_int_equal(in_child(sent_and_ignored), 0);
    assert_int_equal(in_child(ignored_before), 0);
    assert_int_equal(in_child(ignored_fault), ENDED_BY_SIGNAL + SIGSEGV); /* as the kernel has it */
}

static void default_fault(void)
{
    CHECK(sn_guard_install() == 0 && guarded());
    fault();
}

static void default_sent(void)
{
    CHECK(sn_guard_install() == 0 && guarded());
    raise(SIGSEGV);
    pause();
}

static void by_default_it_ends_the_process(void **state)
{
    (void)state;
    assert_int_equal(in_child(default_fault), ENDED_BY_SIGNAL + SIGSEGV);
    assert_int_equal(in_child(default_sent), ENDED_BY_SIGNAL + SIGSEGV);
}

/* A handler that was not led to us, and that chains to what it found: to ours. */
static void take_its_place(void)
{
    struct sigaction a = with(pass_along, SA_NODEFER);

    CHECK(sn_guard_install() == 0);
    set(SIGSEGV, with(mend, 0));
    CHECK(__sigaction(SIGSEGV, &a, &chain) == 0);
}

static void chains(void)
{
    take_its_place();
    CHECK(guarded() && chained_calls == 1 && calls == 0); /* by the chain */
    fault();
    CHECK(chained_calls == 2 && calls == 1);
    mprotect(nowhere, PAGE, PROT_NONE);
    CHECK(sn_guard_install() == 0); /* in front again */
    CHECK(guarded() && chained_calls == 2 && calls == 1);
    fault(); /* ours, theirs, ours again, and the one beneath: not in a circle */
    CHECK(chained_calls == 3 && calls == 2);
    CHECK(get(SIGSEGV).sa_sigaction == pass_along);
    set(SIGSEGV, chain); /* what it found is put back: that stands for the one beneath */
    CHECK(get(SIGSEGV).sa_sigaction == mend);
}

static void chains_to_nothing(void)
{
    struct sigaction a = with(pass_along, 0);

    CHECK(sn_guard_install() == 0 && __sigaction(SIGSEGV, &a, &chain) == 0 && sn_guard_install() == 0);
    CHECK(guarded());
    fault();
}

static void a_chain_comes_to_an_end(void **state)
{
    (void)state;
    assert_int_equal(in_child(chains), 0);
    assert_int_equal(in_child(chains_to_nothing), ENDED_BY_SIGNAL + SIGSEGV);
}

/* Again and again from the same depth, so the kernel's frames lie at the same place each time. */
static void jumps_out(void)
{
    CHECK(sn_guard_install() == 0);
    set(SIGSEGV, plain(jump_out, 0));
    for (volatile int i = 0; i < 1000; i++) {
        if (!sigsetjmp(back, 1)) fault();
        CHECK(guarded());
    }
    CHECK(calls == 1000);
}

static void a_handler_may_jump_out_of_itself(void **state)
{
    (void)state;
    assert_int_equal(in_child(jumps_out), 0);
}

static void *access_with_all_blocked(void *arg)
{
    sigset_t all;

    (void)arg;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    CHECK(guarded());
    return NULL;
}

static void blocked(void)
{
    pthread_t thread;

    CHECK(sn_guard_install() == 0);
    CHECK(pthread_create(&thread, NULL, access_with_all_blocked, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void a_thread_that_blocks_all_signals_has_its_guard(void **state)
{
    (void)state;
    assert_int_equal(in_child(blocked), 0);
}

static void *change_it(void *arg)
{
    for (int i = 0; i < 20000; i++) set(SIGSEGV, i % 2 ? with(mend, SA_NODEFER) : plain(SIG_IGN, 0));
    return arg;
}

/* While others change the program's handler, what is read of it is one of the two. */
static void changes(void)
{
    pthread_t threads[2];

    CHECK(sn_guard_install() == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, change_it, NULL) == 0);
    set(SIGSEGV, plain(SIG_IGN, 0));
    for (int i = 0; i < 20000; i++) {
        struct sigaction a = get(SIGSEGV);

        CHECK((a.sa_flags & SA_SIGINFO) ? a.sa_sigaction == mend : a.sa_handler == SIG_IGN);
        if (i % 100 == 0) CHECK(guarded() && raise(SIGSEGV) == 0);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static void threads_may_change_handlers_at_once(void **state)
{
    (void)state;
    assert_int_equal(in_child(changes), 0);
}

/* A child has no NIC: what it sets is the system's, and is inherited by what it executes. */
static void in_a_child(void)
{
    struct sigaction now;
    int status;
    pid_t pid;

    CHECK(sn_guard_install() == 0);
    set(SIGSEGV, with(mend, 0));
    pid = fork();
    if (!pid) {
        CHECK(get(SIGSEGV).sa_sigaction == mend);
        set(SIGSEGV, plain(SIG_IGN, 0));
        CHECK(__sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    pid = vfork(); /* in our memory */
    if (!pid) {
        struct sigaction by_default = plain(SIG_DFL, 0);

        _exit(sn_handlers_action(SIGSEGV, &by_default, NULL));
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(get(SIGSEGV).sa_sigaction == mend && guarded());
}

static void a_child_changes_nothing_here(void **state)
{
    (void)state;
    assert_int_equal(in_child(in_a_child), 0);
}

/* Beyond the end of a file there is no memory: SIGBUS. */
static void beyond_a_file(void)
{
    char byte;
    int fd = memfd_create("short", MFD_CLOEXEC);

    CHECK(sn_guard_install() == 0);
    set(SIGBUS, plain(jump_out, 0));
    nowhere = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(fd >= 0 && nowhere != MAP_FAILED);
    CHECK(guarded() && calls == 0);
    if (!sigsetjmp(back, 1)) {
        byte = *(volatile char *)nowhere;
        (void)byte;
    }
    CHECK(calls == 1);
}

static void sigbus_is_guarded_too(void **state)
{
    (void)state;
    assert_int_equal(in_child(beyond_a_file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_set_later_leaves_the_guard),
        cmocka_unit_test(the_program_sees_its_own_handlers),
        cmocka_unit_test(a_handler_has_its_mask_and_its_stack),
        cmocka_unit_test(a_handler_for_once_is_called_once),
        cmocka_unit_test(an_ignored_signal_that_was_sent_is_ignored),
        cmocka_unit_test(by_default_it_ends_the_process),
        cmocka_unit_test(a_chain_comes_to_an_end),
        cmocka_unit_test(a_handler_may_jump_out_of_itself),
        cmocka_unit_test(a_thread_that_blocks_all_signals_has_its_guard),
        cmocka_unit_test(threads_may_change_handlers_at_once),
        cmocka_unit_test(a_child_changes_nothing_here),
        cmocka_unit_test(sigbus_is_guarded_too),
    };

    return cmocka_run_group_tests_name("the program's handlers of faults", tests, NULL, NULL);
}
