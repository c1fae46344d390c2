/* A library with a thread-local variable; loaded in many copies. */
static __thread int value = 5;

int *variable(void) { return &value; }
