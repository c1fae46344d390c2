/* A terminal with a shell that runs one job in the foreground: types ^C (eight times), ^Z and ^\ at it when it is ready, continues it when
   it stops, and then asks it to end by SIGTERM. Prints what the job printed and how it fared. */
#define _GNU_SOURCE
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void shell(char **command) {
    signal(SIGTTOU, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGTSTP, SIG_IGN);
    pid_t job = fork();
    if (job == 0) {
        setpgid(0, 0);
        tcsetpgrp(0, getpgrp());
        signal(SIGTTOU, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
        signal(SIGTSTP, SIG_DFL);
        execv(command[0], command);
        _exit(126);
    }
    int status;
    while (waitpid(job, &status, WUNTRACED) == job && WIFSTOPPED(status)) {
        printf("stopped by %d\n", WSTOPSIG(status));
        fflush(stdout);
        kill(-job, SIGCONT);
    }
    if (WIFEXITED(status))
        printf("exited with %d\n", WEXITSTATUS(status));
    else
        printf("killed by %d\n", WTERMSIG(status));
    fflush(stdout);
    /* What is in the terminal when its last user goes may be lost; the reader answers when it has it all. */
    getchar();
    _exit(0);
}

int main(int argc, char **argv) {
    int terminal;
    pid_t leader = forkpty(&terminal, NULL, NULL, NULL);
    if (leader == 0)
        shell(argv + 1);
    alarm(20);
    FILE *output = fdopen(terminal, "r");
    char line[512];
    int interrupted = 0;
    while (fgets(line, sizeof line, output)) {
        const char *keys = "";
        line[strcspn(line, "\r\n")] = '\0';
        puts(line);
        fflush(stdout);
        if (strstr(line, "ready"))
            keys = "\003";
        else if (strstr(line, "signal 2 "))
            keys = ++interrupted < 8 ? "\003" : "\032";
        else if (strstr(line, "stopped by 20"))
            keys = "\034";
        else if (strstr(line, "signal 3 ")) {
            /* The terminal's foreground job, led by hakmem. */
            kill(tcgetpgrp(terminal), SIGTERM);
        } else if (strstr(line, "exited with") || strstr(line, "killed by"))
            keys = "\n";
        if (write(terminal, keys, strlen(keys)) < 0)
            break;
    }
    waitpid(leader, NULL, 0);
    return 0;
}
