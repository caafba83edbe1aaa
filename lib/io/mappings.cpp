// SPDX-License-Identifier: Apache-2.0
#include "io/mappings.hpp"

#include <atomic>
#include <mutex>

namespace lm::io {
namespace {

// Nodes are never freed, so that mapping_at() can follow the list at any time. The node of a file
// that was unmapped serves the next file. `data` is written last and cleared first: a reader that
// finds its address in [data, data + size) sees the size and the path of that mapping.
struct Node {
    std::atomic<const std::byte*> data = nullptr;
    std::atomic<i64> size = 0;
    std::string path;
    Node* next = nullptr;
};

std::mutex writers;
std::atomic<Node*> first = nullptr;
static_assert(std::atomic<Node*>::is_always_lock_free && std::atomic<i64>::is_always_lock_free);

// Returns the node of `data`; with nullptr, a node without a file. Creates none.
Node* find(const std::byte* data) {
    for (Node* node = first.load(); node != nullptr; node = node->next) {
        if (node->data.load() == data) return node;
    }
    return nullptr;
}

}  // namespace

void add_mapping(const void* data, i64 size, const std::string& path) {
    const std::lock_guard lock(writers);
    Node* node = find(nullptr);
    if (node == nullptr) {
        node = new Node;
        node->next = first.load();
        first.store(node);
    }
    node->path = path;
    node->size.store(size);
    node->data.store(static_cast<const std::byte*>(data));
}

void remove_mapping(const void* data) {
    const std::lock_guard lock(writers);
    if (Node* const node = find(static_cast<const std::byte*>(data))) node->data.store(nullptr);
}

Mapping mapping_at(const void* address) noexcept {
    const auto* const at = static_cast<const std::byte*>(address);
    for (const Node* node = first.load(); node != nullptr; node = node->next) {
        const std::byte* const data = node->data.load();
        if (data != nullptr && at >= data && at < data + node->size.load())
            return {node->path.c_str(), node->size.load()};
    }
    return {nullptr, 0};
}

}  // namespace lm::io
