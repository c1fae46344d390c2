// A plug-in for `plug_in_host.c` that brings a C++ runtime of its own: its handler is asked when
// memory is short, and what is thrown is of this runtime.
#include <cstdio>
#include <initializer_list>
#include <new>
#include <vector>

struct Refused : std::bad_alloc {};

static int asked;

static void refuse() {
    asked++;
    throw Refused();
}

extern "C" int run() {
    const std::size_t large = std::size_t(1) << 60;
    int caught = 0, refused = 0;
    for (std::new_handler handler : {std::new_handler(refuse), std::new_handler()}) {
        std::set_new_handler(handler);
        if (::operator new(large, std::nothrow)) return 1;
        try {
            ::operator delete(::operator new(large));
        } catch (const Refused &) {
            refused++;
        } catch (const std::bad_alloc &) {
            caught++;
        }
    }
    // The linker takes the function that throws for the containers, as they may call it.
    std::vector<int>(caught).push_back(1);
    std::puts("done");
    return asked == 2 && refused == 1 && caught == 1 ? 0 : 2;
}
