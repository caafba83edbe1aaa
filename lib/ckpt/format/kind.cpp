// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/kind.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <string>

namespace lm::ckpt {

SliceKind SliceKind::named(std::string_view name) {
    const auto known = std::ranges::find(all_kinds, name, &SliceKind::name);
    if (known != all_kinds.end()) return *known;
    static std::mutex mutex;
    static std::set<std::string, std::less<>> names;  // never erased: kinds refer to the strings
    const std::lock_guard lock(mutex);
    return SliceKind(*names.emplace(name).first);
}

}  // namespace lm::ckpt
