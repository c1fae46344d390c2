// Containers over operator new, for tools that know which operator goes with which.
#include <cstdio>
#include <map>
#include <memory>
#include <string>

int main() {
    std::map<std::string, std::unique_ptr<int[]>> map;
    for (int i = 0; i < 100; i++) map["a key that is too long for the string itself " + std::to_string(i)].reset(new int[10]);
    std::printf("%zu\n", map.size());
}
