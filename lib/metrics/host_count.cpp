// SPDX-License-Identifier: Apache-2.0
#include "metrics/host_count.hpp"

#include <charconv>
#include <optional>

namespace lm::metrics {
namespace {

std::optional<i64> whole(std::string_view text) {
    i64 value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || stop != end || value < 0) return std::nullopt;
    return value;
}

// Returns how many numbers a range such as "001-004" or "7" has; 0 when it is not valid.
i64 count_range(std::string_view text) {
    const size_t dash = text.find('-');
    const std::optional<i64> first = whole(text.substr(0, dash));
    const std::optional<i64> last = dash == text.npos ? first : whole(text.substr(dash + 1));
    constexpr i64 most = 10'000'000;
    if (!first || !last || *last < *first || *last - *first >= most) return 0;
    return *last - *first + 1;
}

// Returns the number of hosts that an item names. The item has no comma outside of brackets. For an
// item with several brackets, this is the product of the counts of the brackets.
i64 count_item(std::string_view item) {
    i64 n = item.empty() ? 0 : 1;
    while (true) {
        const size_t open = item.find('[');
        if (open == item.npos) return n;
        const size_t close = item.find(']', open);
        if (close == item.npos) return 0;
        std::string_view ranges = item.substr(open + 1, close - open - 1);
        i64 sum = 0;
        while (true) {
            const size_t comma = ranges.find(',');
            const i64 of_range = count_range(ranges.substr(0, comma));
            if (of_range == 0) return 0;
            sum += of_range;
            if (comma == ranges.npos) break;
            ranges.remove_prefix(comma + 1);
        }
        n *= sum;
        item.remove_prefix(close + 1);
    }
}

}  // namespace

i64 count_hosts(std::string_view list) {
    i64 n = 0;
    size_t begin = 0;
    int depth = 0;
    for (size_t at = 0; at <= list.size(); ++at) {
        const char c = at < list.size() ? list[at] : ',';
        depth += (c == '[') - (c == ']');
        if (c != ',' || (depth != 0 && at < list.size())) continue;
        const i64 of_item = count_item(list.substr(begin, at - begin));
        if (of_item == 0) return 0;
        n += of_item;
        begin = at + 1;
    }
    return n;
}

}  // namespace lm::metrics
