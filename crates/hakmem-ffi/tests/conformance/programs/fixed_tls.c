/* A library whose thread-local storage must lie at a fixed place: what others leave of the room for such. */
__attribute__((tls_model("initial-exec"))) static __thread char storage[480];

char *fixed_storage(void) { return storage; }
