// The C++ behaviours. "abi_cpp system" lets the runtime library lack what its own versions got wrong.
#include "check.h"
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Above PTRDIFF_MAX: no allocator may serve it. Volatile, so that the compiler does not judge it first.
static volatile std::size_t too_much = static_cast<std::size_t>(PTRDIFF_MAX) + 1;
static volatile std::size_t some = 100;
static void *volatile sink;
static bool on_system;

static bool aligned(void *p, std::size_t align) { return reinterpret_cast<std::uintptr_t>(p) % align == 0; }

static void every_form() {
    using std::align_val_t;
    using std::nothrow;
    void *p;
    bool ok = true;
    const align_val_t a{64};
    auto use = [&](std::size_t align) {
        ok = ok && p && aligned(p, align);
        if (p)
            std::memset(p, 0x5A, some);
        sink = p;
    };
    p = ::operator new(some), use(16), ::operator delete(p);
    p = ::operator new(some), use(16), ::operator delete(p, static_cast<std::size_t>(some));
    p = ::operator new(some, nothrow), use(16), ::operator delete(p, nothrow);
    p = ::operator new[](some), use(16), ::operator delete[](p);
    p = ::operator new[](some), use(16), ::operator delete[](p, static_cast<std::size_t>(some));
    p = ::operator new[](some, nothrow), use(16), ::operator delete[](p, nothrow);
    CHECK("new_and_delete_plain_sized_nothrow", ok);
    p = ::operator new(some, a), use(64), ::operator delete(p, a);
    p = ::operator new(some, a), use(64), ::operator delete(p, static_cast<std::size_t>(some), a);
    p = ::operator new(some, a, nothrow), use(64), ::operator delete(p, a, nothrow);
    p = ::operator new[](some, a), use(64), ::operator delete[](p, a);
    p = ::operator new[](some, a), use(64), ::operator delete[](p, static_cast<std::size_t>(some), a);
    p = ::operator new[](some, a, nothrow), use(64), ::operator delete[](p, a, nothrow);
    CHECK("new_and_delete_aligned", ok);
    for (std::size_t align = 1; align <= (1u << 20); align *= 2)
        p = ::operator new(some, align_val_t{align}), use(align), ::operator delete(p, align_val_t{align});
    CHECK("new_every_alignment", ok);
    ::operator delete(nullptr);
    ::operator delete[](nullptr, nothrow);
    ::operator delete(nullptr, a);
    CHECK("delete_null", true);
    void *q = ::operator new(0);
    void *r = ::operator new(0);
    CHECK("new_zero_is_unique", q && r && q != r);
    ::operator delete(q);
    ::operator delete(r);
}

template <class F> static const char *outcome(F f) {
    try {
        sink = f();
        return sink ? "block" : "null";
    } catch (const std::bad_alloc &e) {
        return std::strstr(e.what(), "bad_alloc") ? "bad_alloc" : "another bad_alloc";
    } catch (int) {
        return "int";
    } catch (...) {
        return "something else";
    }
}

struct Witness {
    int *count;
    ~Witness() { ++*count; }
};

static void *new_under_a_destructor(int *count) {
    Witness witness{count};
    return ::operator new(too_much);
}

static void failures_without_handler() {
    using std::align_val_t;
    const align_val_t a{64};
    CHECK("new_throws", !strcmp(outcome([] { return ::operator new(too_much); }), "bad_alloc"));
    CHECK("new_array_throws", !strcmp(outcome([] { return ::operator new[](too_much); }), "bad_alloc"));
    CHECK("new_aligned_throws", !strcmp(outcome([=] { return ::operator new(too_much, a); }), "bad_alloc"));
    CHECK("new_array_aligned_throws", !strcmp(outcome([=] { return ::operator new[](too_much, a); }), "bad_alloc"));
    CHECK("new_nothrow_null", !strcmp(outcome([] { return ::operator new(too_much, std::nothrow); }), "null"));
    CHECK("new_array_nothrow_null", !strcmp(outcome([] { return ::operator new[](too_much, std::nothrow); }), "null"));
    CHECK("new_aligned_nothrow_null",
          !strcmp(outcome([=] { return ::operator new(too_much, a, std::nothrow); }), "null"));
    CHECK("new_array_aligned_nothrow_null",
          !strcmp(outcome([=] { return ::operator new[](too_much, a, std::nothrow); }), "null"));
    CHECK("new_size_plus_alignment_wraps",
          on_system || !strcmp(outcome([=] { return ::operator new(SIZE_MAX - some / 4, a); }), "bad_alloc"));
    int destroyed = 0;
    bool thrown = !strcmp(outcome([&] { return new_under_a_destructor(&destroyed); }), "bad_alloc");
    CHECK("unwinding_runs_destructors", thrown && destroyed == 1);
    thrown = false;
    std::thread([&] { thrown = !strcmp(outcome([] { return ::operator new(too_much); }), "bad_alloc"); }).join();
    CHECK("new_throws_in_a_thread", thrown);
}

static int calls;

static void gives_up_at_third() {
    if (++calls == 3)
        std::set_new_handler(nullptr);
}

static void throws_bad_alloc() {
    ++calls;
    throw std::bad_alloc();
}

struct Derived : std::bad_alloc {};

static void throws_derived() {
    ++calls;
    throw Derived();
}

static void throws_int() {
    ++calls;
    throw 42;
}

static std::jmp_buf out;

static void jumps_out() {
    ++calls;
    std::longjmp(out, 1);
}

static const char *with_handler(std::new_handler handler, bool nothrow, std::size_t align) {
    calls = 0;
    std::set_new_handler(handler);
    const char *result = outcome([=]() -> void * {
        std::align_val_t a{align};
        if (align)
            return nothrow ? ::operator new(too_much, a, std::nothrow) : ::operator new(too_much, a);
        return nothrow ? ::operator new(too_much, std::nothrow) : ::operator new(too_much);
    });
    std::set_new_handler(nullptr);
    return result;
}

static void handlers() {
    for (std::size_t align : {0, 256}) {
        auto is = [](const char *a, const char *b) { return !strcmp(a, b); };
        CHECK("handler_loop_then_throw", is(with_handler(gives_up_at_third, false, align), "bad_alloc") && calls == 3);
        CHECK("handler_loop_then_null", is(with_handler(gives_up_at_third, true, align), "null") && calls == 3);
        CHECK("handler_throws", is(with_handler(throws_bad_alloc, false, align), "bad_alloc") && calls == 1);
        CHECK("handler_throws_anything", is(with_handler(throws_int, false, align), "int") && calls == 1);
        CHECK("nothrow_handler_throws", is(with_handler(throws_bad_alloc, true, align), "null") && calls == 1);
        CHECK("nothrow_handler_throws_derived", is(with_handler(throws_derived, true, align), "null") && calls == 1);
        CHECK("nothrow_leaves_no_exception", !std::current_exception() && std::uncaught_exceptions() == 0);
    }
    calls = 0;
    std::set_new_handler(gives_up_at_third);
    auto largest = std::align_val_t{std::size_t{1} << 63};
    sink = ::operator new(16, largest, std::nothrow);
    CHECK("handler_loop_at_the_largest_alignment", !sink && calls == 3);
    calls = 0;
    for (std::size_t align : {0, 3, 24, 5000}) {
        auto odd = std::align_val_t{align};
        bool thrown = false;
        try {
            sink = ::operator new(16, odd);
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        CHECK("no_power_of_two_throws", thrown);
        CHECK("no_power_of_two_is_null", !::operator new(16, odd, std::nothrow));
    }
    CHECK("no_handler_for_no_power_of_two", calls == 0);
    calls = 0;
    std::set_new_handler(jumps_out);
    if (setjmp(out) == 0)
        sink = ::operator new(too_much);
    std::set_new_handler(nullptr);
    CHECK("handler_longjmps", calls == 1);
}

static void library_code() {
    std::vector<std::string> words;
    for (int i = 0; i < 20000; i++)
        words.push_back("a word long enough to be on the heap " + std::to_string(i));
    bool ok = true;
    for (int i = 0; i < 20000; i++)
        ok = ok && words[i] == "a word long enough to be on the heap " + std::to_string(i);
    CHECK("containers", ok);
    ok = false;
    try {
        std::vector<char> v;
        v.resize(PTRDIFF_MAX - 1);
    } catch (const std::bad_alloc &) {
        ok = true;
    } catch (const std::length_error &) {
        ok = true;
    }
    CHECK("vector_too_large", ok);
    struct alignas(128) Wide {
        char bytes[128];
    };
    Wide *w = new Wide[3];
    CHECK("over_aligned_array", aligned(w, 128));
    delete[] w;
    std::vector<void *> blocks;
    std::thread([&] {
        for (int i = 0; i < 5000; i++)
            blocks.push_back(::operator new(1 + i % 2000));
    }).join();
    for (void *p : blocks)
        ::operator delete(p);
    CHECK("delete_in_another_thread", true);
}

/* Sized deletes of blocks of all sizes and alignments, in any order, by either of two threads. */
static void sized_deletes() {
    struct Made {
        void *p;
        std::size_t size, align;
    };
    std::vector<Made> made;
    unsigned long random = 1;
    auto next = [&random](unsigned long below) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        return (random >> 33) % below;
    };
    auto make = [&] {
        std::size_t size = next(std::size_t(2) << next(23)), align = next(8) ? 0 : std::size_t(32) << next(18);
        void *p = align ? ::operator new(size, std::align_val_t(align)) : ::operator new(size);
        made.push_back({p, size, align});
    };
    auto take = [&] {
        std::size_t i = next(made.size());
        Made one = made[i];
        made[i] = made.back();
        made.pop_back();
        if (one.align)
            ::operator delete(one.p, one.size, std::align_val_t(one.align));
        else
            ::operator delete(one.p, one.size);
    };
    auto some = [&] {
        for (int i = 0; i < 20000; i++)
            if (made.size() < 100 && (made.empty() || next(2)))
                make();
            else
                take();
    };
    some();
    std::thread(some).join();
    some();
    while (!made.empty())
        take();
    CHECK("sized_deletes", true);
}

int main(int argc, char **argv) {
    on_system = argc > 1 && !strcmp(argv[1], "system");
    every_form();
    failures_without_handler();
    handlers();
    library_code();
    sized_deletes();
    return failures != 0;
}
