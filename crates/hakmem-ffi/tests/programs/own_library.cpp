// A library with C++ operators of its own, to which it is bound, and a program that deletes what
// the library made. With -DLIBRARY it is the library.
#include <cstdlib>
#include <new>

int *make();

#ifdef LIBRARY
void *operator new(std::size_t size) { return std::malloc(size); }
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }

int *make() { return new int(5); }
#else
int main() {
    int *made = make();
    int is = *made;
    delete made;
    return is == 5 ? 3 : 1;
}
#endif
