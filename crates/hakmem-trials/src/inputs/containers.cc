// Containers, strings and algorithms: much for a compiler to instantiate.
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

struct Node {
    std::string name;
    std::vector<std::unique_ptr<Node>> children;
    std::variant<int, double, std::string> value;
};

template <int N> struct Level {
    using Inner = std::map<std::string, std::vector<std::pair<int, std::array<int, N>>>>;
    Inner inner;
    Level<N - 1> below;
    int sum() const {
        int total = below.sum();
        for (const auto &[key, list] : inner)
            for (const auto &item : list)
                total += item.first + std::accumulate(item.second.begin(), item.second.end(), 0) + int(key.size());
        return total;
    }
};
template <> struct Level<0> {
    int sum() const { return 0; }
};

int depth(const Node &node) {
    int most = 0;
    for (const auto &child : node.children) most = std::max(most, depth(*child));
    return most + 1;
}

int main() {
    Level<12> levels;
    std::unordered_map<std::string, std::set<int>> index;
    std::deque<std::function<int(int)>> jobs;
    std::list<std::string> words;
    std::istringstream in("the quick brown fox jumps over the lazy dog");
    for (std::string word; in >> word;) {
        index[word].insert(int(words.size()));
        words.push_back(word);
        jobs.emplace_back([word](int x) { return x + int(word.size()); });
    }
    std::vector<std::string> sorted(words.begin(), words.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.size() < b.size(); });
    std::regex pattern("(o|e)([a-z]+)");
    int found = int(std::count_if(sorted.begin(), sorted.end(), [&](const auto &w) { return std::regex_search(w, pattern); }));
    for (auto &job : jobs) found = job(found);
    Node root{"root", {}, 1};
    root.children.push_back(std::make_unique<Node>(Node{"leaf", {}, std::string("x")}));
    std::cout << found << ' ' << depth(root) << ' ' << index.size() << ' ' << levels.sum() << '\n';
}
