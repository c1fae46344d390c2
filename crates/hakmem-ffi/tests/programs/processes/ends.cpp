/* ends SCENARIO COUNT: thread_local destructors, and threads that end inside operator new. */
#include "torture.h"
#include <new>
#include <vector>

enum { DESTROYED, THREADS, HANDLERS, UNWOUND };
static const char *const names[] = {"destroyed", "threads", "handlers", "unwound", NULL};

enum { BLOCKS = 40 };

/* Ends with the thread; what it holds it frees, and allocates again meanwhile. */
struct Held {
    std::vector<std::vector<unsigned char>> all;
    explicit Held(int n) {
        for (int i = 0; i < n; i++)
            all.emplace_back(100 + 37 * i, (unsigned char)i);
    }
    ~Held() {
        for (size_t i = 0; i < all.size(); i++) {
            CHECK(all[i].size() == 100 + 37 * i && all[i].front() == (unsigned char)i && all[i].back() == (unsigned char)i);
            std::vector<unsigned char> copy(all[i]);
            all[i].swap(copy);
        }
        all.clear();
        count(DESTROYED);
    }
};

static thread_local Held held(BLOCKS);

/* Made in the destructor of a key, after the thread_locals are gone and the allocator's own key: its destructor is
 * registered so late that libc runs it at the very end, if at all. */
static pthread_key_t key;
static void late(void *value) {
    Held *h = static_cast<Held *>(value);
    h->all.emplace_back(100 + 37 * h->all.size(), (unsigned char)h->all.size());
    delete h;
    delete[] new char[5000];
}

static void *live(void *) {
    CHECK(held.all.size() == BLOCKS);
    CHECK(pthread_setspecific(key, new Held(BLOCKS)) == 0);
    count(THREADS);
    return nullptr;
}

static void thread_locals(long n) {
    CHECK(pthread_key_create(&key, late) == 0);
    for (long i = 0; i < n; i++) {
        pthread_t threads[4];
        for (auto &t : threads)
            CHECK(pthread_create(&t, nullptr, live, nullptr) == 0);
        for (auto &t : threads)
            CHECK(pthread_join(t, nullptr) == 0);
    }
    say_counts(names);
}

/* A stack object: unwinding by pthread_exit and by cancellation runs its destructor. */
struct Unwound {
    std::vector<int> some{1, 2, 3};
    ~Unwound() { count(UNWOUND); }
};

static thread_local int how;
static void end_the_thread() {
    count(HANDLERS);
    if (how == 0)
        pthread_exit(nullptr);
    pthread_cancel(pthread_self());
    pthread_testcancel();
    CHECK(!"the thread was cancelled");
}

static void *ask_too_much(void *which) {
    Unwound here;
    how = (int)(intptr_t)which;
    volatile size_t most = PTRDIFF_MAX - 4096;
    void *volatile p = ::operator new(most); /* The compiler may leave out a new-expression that nobody uses. */
    CHECK(!p && "the handler ends the thread");
    return nullptr;
}

static void inside_new(long n) {
    std::set_new_handler(end_the_thread);
    for (long i = 0; i < n; i++) {
        pthread_t t;
        void *result;
        CHECK(pthread_create(&t, nullptr, ask_too_much, (void *)(intptr_t)(i % 2)) == 0);
        CHECK(pthread_join(t, &result) == 0 && result == (i % 2 ? PTHREAD_CANCELED : nullptr));
        count(THREADS);
    }
    say_counts(names);
}

int main(int argc, char **argv) {
    static const struct scenario all[] = {{"thread_locals", thread_locals}, {"inside_new", inside_new}, {NULL, NULL}};
    return run_scenario(all, argc, argv);
}
