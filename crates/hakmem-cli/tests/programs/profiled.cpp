// Allocates by containers of the standard library, in functions that are known.
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#define APART __attribute__((noinline))

struct Item {
    std::string name;
    long numbers[20];
};

static std::vector<Item> items;
static std::map<int, std::string> texts;
static std::vector<std::unique_ptr<Item>> owned;

APART static void fills() {
    for (int i = 0; i < 20000; i++) items.push_back(Item{std::string(50 + i % 50, 'x'), {}});
}

APART static void maps() {
    for (int i = 0; i < 20000; i++) texts[i] = std::string(100, 'y');
}

APART static void owns() {
    for (int i = 0; i < 20000; i++) owned.push_back(std::make_unique<Item>());
}

int main() {
    std::thread thread(maps);
    thread.join();
    fills();
    owns();
}
