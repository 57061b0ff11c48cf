/* Ctrl-C: the first ends the solves under way, the second is the caller's again. */
#if defined(__wasm__)
static const int interrupted = 0;
static int interrupt_catch(void) { return 0; }
static void interrupt_release(void) {}
#else
#include <signal.h>
static volatile sig_atomic_t interrupted;
#if defined(_WIN32)
static void (*interrupt_before)(int);
static void interrupt_note(int number) {
    interrupted = 1;
    signal(number, interrupt_before);
}
static int interrupt_catch(void) {
    interrupted = 0;
    interrupt_before = signal(SIGINT, interrupt_note);
    return 1;
}
static void interrupt_release(void) {
    signal(SIGINT, interrupt_before);
    interrupted = 0;
}
#else
static struct sigaction interrupt_before;
static void interrupt_note(int number) {
    interrupted = 1;
    sigaction(number, &interrupt_before, NULL);
}
static int interrupt_catch(void) {
    struct sigaction ours = {.sa_handler = interrupt_note};
    interrupted = 0;
    sigemptyset(&ours.sa_mask);
    return sigaction(SIGINT, &ours, &interrupt_before) == 0;
}
static void interrupt_release(void) {
    sigaction(SIGINT, &interrupt_before, NULL);
    interrupted = 0;
}
#endif
#endif
