/* The program under test. What it does is its first argument. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prints every signal it gets, with its value if it has one, until SIGTERM. The stopping ones keep their action. */
static int signals(void) {
    sigset_t set;
    sigfillset(&set);
    sigdelset(&set, SIGTSTP);
    sigdelset(&set, SIGCONT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    alarm(20);
    puts("ready");
    fflush(stdout);
    for (;;) {
        siginfo_t info;
        int signal = sigwaitinfo(&set, &info);
        if (signal == SIGALRM || signal == SIGTERM)
            return signal == SIGTERM ? 5 : 1;
        if (signal > 0) {
            printf("signal %d value %d\n", signal, info.si_code == SI_QUEUE ? info.si_value.sival_int : 0);
            fflush(stdout);
        }
    }
}

/* Prints all that a process inherits and a wrapper might lose. */
static int state(void) {
    char line[256];
    for (int fd = 0; fd < 16; fd++)
        if (fd != 1 && fcntl(fd, F_GETFD) != -1)
            printf("fd %d\n", fd);
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "Sig", 3) == 0 && strncmp(line, "SigQ", 4) != 0)
            fputs(line, stdout);
    printf("group %d session %d\n", getpgrp(), getsid(0));
    return 0;
}

static void too_late(int signal) {
    _exit(write(1, "not killed\n", 11) + signal);
}

/* Waits to be killed, holding on to standard output. */
static void hold(void) {
    signal(SIGALRM, too_late);
    alarm(20);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}

static int children(void) {
    for (int i = 0; i < 2; i++) {
        if (fork() == 0)
            exit(0);
        wait(NULL);
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "name") == 0)
        return puts(argv[0]) < 0;
    if (strcmp(what, "signals") == 0)
        return signals();
    if (strcmp(what, "state") == 0)
        return state();
    if (strcmp(what, "hold") == 0)
        hold();
    if (strcmp(what, "children") == 0)
        return children();
    if (strcmp(what, "_exit") == 0)
        _exit(9);
    if (strcmp(what, "stop") == 0)
        return raise(SIGSTOP);
    if (strcmp(what, "marker") == 0)
        return creat(argv[2], 0600) < 0;
    if (strcmp(what, "exec") == 0)
        return execv(argv[2], argv + 2);
    return 2;
}
