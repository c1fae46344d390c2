// operator new and delete.
#include "conformance.h"
#include <csetjmp>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using std::align_val_t;
using std::nothrow;
static const align_val_t wide{64};
static volatile std::size_t some = 100;

/// Writes to the block, which has to be aligned.
static void *used(void *p, std::size_t align = 16) {
    CHECK(is_aligned(p, align));
    memset(p, 0x5A, some);
    return sink = p;
}

BEHAVIOUR(every_form_of_new_and_delete_works) {
    const std::size_t n = some;
    for (int i = 0; i < 1000; i++) {
        ::operator delete(used(::operator new(n)));
        ::operator delete(used(::operator new(n)), n);
        ::operator delete(used(::operator new(n, nothrow)), nothrow);
        ::operator delete(used(::operator new(n, wide), 64), wide);
        ::operator delete(used(::operator new(n, wide), 64), n, wide);
        ::operator delete(used(::operator new(n, wide, nothrow), 64), wide, nothrow);
        ::operator delete[](used(::operator new[](n)));
        ::operator delete[](used(::operator new[](n)), n);
        ::operator delete[](used(::operator new[](n, nothrow)), nothrow);
        ::operator delete[](used(::operator new[](n, wide), 64), wide);
        ::operator delete[](used(::operator new[](n, wide), 64), n, wide);
        ::operator delete[](used(::operator new[](n, wide, nothrow), 64), wide, nothrow);
    }
    ::operator delete(nullptr), ::operator delete[](nullptr, nothrow), ::operator delete(nullptr, wide);
    for (std::size_t align = 1; align <= 1 << 20; align *= 2)
        ::operator delete(used(::operator new(n, align_val_t{align}), align), align_val_t{align});
    void *p = ::operator new(zero), *q = ::operator new(zero), *r = ::operator new[](zero);
    CHECK(p && q && r && p != q && q != r && p != r);
    ::operator delete(p), ::operator delete(q), ::operator delete[](r);
}

/// One form that is left to the C++ runtime would free hakmem's blocks by the C library's free.
BEHAVIOUR(every_operator_is_the_allocators) {
    static const char *const names[] = {
        "_Znwm",    "_ZnwmRKSt9nothrow_t",  "_ZnwmSt11align_val_t",  "_ZnwmSt11align_val_tRKSt9nothrow_t",
        "_Znam",    "_ZnamRKSt9nothrow_t",  "_ZnamSt11align_val_t",  "_ZnamSt11align_val_tRKSt9nothrow_t",
        "_ZdlPv",   "_ZdlPvRKSt9nothrow_t", "_ZdlPvSt11align_val_t", "_ZdlPvSt11align_val_tRKSt9nothrow_t",
        "_ZdaPv",   "_ZdaPvRKSt9nothrow_t", "_ZdaPvSt11align_val_t", "_ZdaPvSt11align_val_tRKSt9nothrow_t",
        "_ZdlPvm",  "_ZdaPvm",              "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t"};
    Dl_info home, info;
    CHECK(dladdr(dlsym(RTLD_DEFAULT, on_hakmem ? "hakmem_stats" : "_Znwm"), &home));
    for (const char *name : names) {
        void *f = dlsym(RTLD_DEFAULT, name);
        CHECK(f && dladdr(f, &info) && info.dli_fbase == home.dli_fbase);
    }
    ::operator delete(used(::operator new(some)));
}

template <class F> static std::string outcome(F f) {
    try {
        sink = f();
        return sink ? "block" : "null";
    } catch (const std::bad_alloc &e) {
        return e.what();
    } catch (int) {
        return "int";
    }
}

/// What becomes of a request that cannot be met.
static std::string outcome_of(bool is_nothrow, std::size_t align, bool array) {
    const align_val_t a{align};
    const std::size_t n = too_much;
    if (align)
        return outcome([=] {
            if (is_nothrow)
                return array ? ::operator new[](n, a, nothrow) : ::operator new(n, a, nothrow);
            return array ? ::operator new[](n, a) : ::operator new(n, a);
        });
    return outcome([=] {
        if (is_nothrow)
            return array ? ::operator new[](n, nothrow) : ::operator new(n, nothrow);
        return array ? ::operator new[](n) : ::operator new(n);
    });
}

template <class F> static void for_every_form(F f) {
    for (bool array : {false, true})
        for (std::size_t align : {0, 256})
            f(align, array);
}

struct Witness {
    int *count;
    ~Witness() { ++*count; }
};

BEHAVIOUR(new_throws_bad_alloc) {
    for_every_form([](std::size_t align, bool array) {
        CHECK(outcome_of(false, align, array) == "std::bad_alloc");
        int destroyed = 0;
        CHECK(outcome([&] {
                  Witness witness{&destroyed};
                  return ::operator new(too_much);
              }) == "std::bad_alloc");
        CHECK(destroyed == 1);
        std::thread([=] { CHECK(outcome_of(false, align, array) == "std::bad_alloc"); }).join();
    });
}

BEHAVIOUR(nothrow_new_returns_null) {
    for_every_form([](std::size_t align, bool array) {
        CHECK(outcome_of(true, align, array) == "null");
        CHECK(!std::current_exception());
    });
    ::operator delete(used(::operator new(some, nothrow)));
}

static int calls;
static std::jmp_buf out;

static std::string with_handler(std::new_handler handler, bool is_nothrow, std::size_t align, bool array) {
    calls = 0;
    std::set_new_handler(handler);
    std::string result = outcome_of(is_nothrow, align, array);
    std::set_new_handler(nullptr);
    return result;
}

BEHAVIOUR(new_handler_is_called_until_it_gives_up) {
    auto gives_up_at_third = [] {
        if (++calls == 3)
            std::set_new_handler(nullptr);
    };
    for_every_form([=](std::size_t align, bool array) {
        CHECK(with_handler(gives_up_at_third, false, align, array) == "std::bad_alloc" && calls == 3);
        CHECK(with_handler(gives_up_at_third, true, align, array) == "null" && calls == 3);
    });
}

BEHAVIOUR(new_handler_may_throw) {
    auto throws_bad_alloc = [] {
        ++calls;
        throw std::bad_alloc();
    };
    auto throws_int = [] {
        ++calls;
        throw 42;
    };
    for_every_form([=](std::size_t align, bool array) {
        CHECK(with_handler(throws_bad_alloc, false, align, array) == "std::bad_alloc" && calls == 1);
        CHECK(with_handler(throws_int, false, align, array) == "int" && calls == 1);
        CHECK(with_handler(throws_bad_alloc, true, align, array) == "null" && calls == 1);
        CHECK(!std::current_exception() && std::uncaught_exceptions() == 0);
    });
}

static char *reserve;

/// The handler's purpose: it frees what the program can do without, and the request is met after all.
BEHAVIOUR(new_handler_may_free_memory) {
    constexpr std::size_t size = 40 << 20;
    limit_memory(100 << 20);
    reserve = static_cast<char *>(::operator new(size));
    char *first = static_cast<char *>(::operator new(size));
    memset(first, 1, size);
    std::set_new_handler([] {
        ::operator delete(reserve);
        reserve = nullptr;
        std::set_new_handler(nullptr);
    });
    char *second = static_cast<char *>(::operator new(size));
    CHECK(!reserve && second);
    memset(second, 2, size);
    CHECK(is_filled(first, size, 1));
    ::operator delete(first), ::operator delete(second);
}

BEHAVIOUR(new_handler_may_longjmp) {
    for (volatile int i = 0; i < 100; i = i + 1) {
        std::set_new_handler([] { std::longjmp(out, 1); });
        if (setjmp(out) == 0) {
            sink = ::operator new(too_much);
            CHECK(!"reached");
        }
        std::set_new_handler(nullptr);
        ::operator delete(used(::operator new(some)));
    }
}

BEHAVIOUR(sized_delete_forgives_a_wrong_size) {
    for (std::size_t n = 1; n < 4 << 20; n = n * 3 + 1) {
        void *p[3];
        for (void *&block : p)
            memset(block = ::operator new(n), 1, n);
        ::operator delete(p[0], n / 2), ::operator delete(p[1], n * 20), ::operator delete(p[2], std::size_t{0});
        void *q = ::operator new(n), *r = ::operator new(n);
        CHECK(q != r);
        memset(q, 1, n), memset(r, 2, n);
        CHECK(is_filled(q, n, 1));
        ::operator delete(q), ::operator delete(r);
    }
}

BEHAVIOUR(containers_and_threads_share_blocks) {
    std::vector<std::string> words;
    std::thread([&] {
        for (int i = 0; i < 20000; i++)
            words.push_back("a word long enough to be on the heap " + std::to_string(i));
    }).join();
    for (int i = 0; i < 20000; i++)
        CHECK(words[i] == "a word long enough to be on the heap " + std::to_string(i));
    struct alignas(128) Wide {
        char bytes[128];
    };
    Wide *w = new Wide[3];
    CHECK(is_aligned(w, 128));
    delete[] w;
}

struct Late {
    char *text;
    ~Late() {
        delete[] text;
        delete[] new char[500];
    }
};

static void in_a_thread() {
    static thread_local Late late{new char[100]};
    sink = late.text;
}

/// thread_local destructors run among those of C's keys.
BEHAVIOUR(thread_local_destructors_free_and_allocate) {
    for (int i = 0; i < 200; i++)
        std::thread(in_a_thread).join();
    in_a_thread(); // And those of the main thread, at exit.
}
