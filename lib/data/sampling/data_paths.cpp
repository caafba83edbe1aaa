// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/data_paths.hpp"

#include <charconv>
#include <cmath>
#include <iterator>
#include <sstream>

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::data {
namespace {

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view space = " \t\r\n";
    const size_t begin = text.find_first_not_of(space);
    if (begin == text.npos) return {};
    return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

std::optional<double> as_number(std::string_view text) {
    text = trimmed(text);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
    return value;
}

double checked_weight(std::string_view option, std::string_view prefix, double weight) {
    if (!(weight > 0) || weight > 1e300) {
        usage_error(option, "the weight {} of {} is not a positive number", weight, prefix);
    }
    return weight;
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    while (!(text = trimmed(text)).empty()) {
        const size_t end = text.find_first_of(" \t\r\n");
        words.push_back(text.substr(0, end));
        text.remove_prefix(words.back().size());
    }
    return words;
}

DataPath parse_group_entry(std::string_view option, std::string_view entry) {
    const std::vector<std::string_view> words = words_of(entry);
    const size_t colon = words.size() == 3 ? words[1].find(':') : std::string_view::npos;
    if (colon == std::string_view::npos) {
        usage_error(option, "expected WEIGHT BEGIN:END PREFIX, got '{}'", trimmed(entry));
    }
    const auto weight = as_number(words[0]);
    const auto begin = as_number(words[1].substr(0, colon));
    const auto end = as_number(words[1].substr(colon + 1));
    if (!weight || !begin || !end) {
        usage_error(option, "expected WEIGHT BEGIN:END PREFIX, got '{}'", trimmed(entry));
    }
    if (*begin < 0 || *end > 1 || *begin >= *end) {
        usage_error(option, "{} of {} is not a range within [0, 1]", words[1], words[2]);
    }
    return {std::string(words[2]), checked_weight(option, words[2], *weight),
            Fraction{*begin, *end}};
}

std::vector<std::string> words_of(const std::string& text) {
    std::istringstream stream(text);
    return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

SequenceRange documents_of(const Fraction& fraction, i64 n_documents) {
    const double n = static_cast<double>(n_documents);
    return {static_cast<i64>(std::nearbyint(fraction.begin * n)),
            static_cast<i64>(std::nearbyint(fraction.end * n))};
}

PathGroup parse_blend(std::string_view option, const std::vector<std::string>& words) {
    if (words.empty()) usage_error(option, "names no dataset");
    size_t n_numbers = 0;
    if (words.size() % 2 == 0) {
        for (size_t k = 0; k < words.size(); k += 2) n_numbers += as_number(words[k]).has_value();
    }
    PathGroup group{.option = std::string(option)};
    if (n_numbers == 0) {
        for (const std::string& word : words) {
            group.paths.push_back({std::string(trimmed(word)), 0, {}});
        }
        return group;
    }
    if (n_numbers != words.size() / 2) {
        usage_error(option, "expected prefixes only, or a weight before every prefix");
    }
    group.weighted = true;
    for (size_t k = 0; k < words.size(); k += 2) {
        const std::string prefix(trimmed(words[k + 1]));
        group.paths.push_back(
            {prefix, checked_weight(option, prefix, as_number(words[k]).value_or(0)), {}});
    }
    return group;
}

PathGroup parse_group(std::string_view option, std::string_view text) {
    const size_t colon = text.find(':');
    PathGroup group{.option = std::string(option)};
    group.name = trimmed(text.substr(0, colon));
    if (colon == text.npos || group.name.empty() || group.name.find(' ') != std::string::npos) {
        usage_error(option, "expected 'NAME:' at the beginning, got '{}'", text);
    }
    group.weighted = true;
    std::string_view rest = text.substr(colon + 1);
    while (true) {
        const size_t comma = rest.find(',');
        group.paths.push_back(parse_group_entry(option, rest.substr(0, comma)));
        if (comma == rest.npos) return group;
        rest.remove_prefix(comma + 1);
    }
}

std::vector<std::string> read_group_file(std::string_view option, const std::string& path) {
    const std::string content = io::read_input(path);
    std::string_view rest = trimmed(content);
    std::vector<std::string> groups;
    if (!rest.empty() && rest.find('"') == rest.npos) groups.emplace_back(rest);
    for (size_t open = rest.find('"'); open != rest.npos; open = rest.find('"')) {
        const size_t close = rest.find('"', open + 1);
        if (close == rest.npos) usage_error(option, "{}: unclosed double quote", path);
        groups.emplace_back(trimmed(rest.substr(open + 1, close - open - 1)));
        rest.remove_prefix(close + 1);
    }
    if (groups.empty()) usage_error(option, "{}: names no dataset", path);
    return groups;
}

std::vector<std::string> read_blend_file(std::string_view option, const std::string& path) {
    std::vector<std::string> words = words_of(io::read_input(path));
    if (words.empty()) usage_error(option, "{}: names no dataset", path);
    return words;
}

void read_split_file(const std::string& path, DataPaths& paths) {
    const io::Json file = io::parse_json(io::read_input(path), path);
    const auto read = [&](const char* key, std::vector<std::string>& words) {
        const io::Json list = io::json_get<io::Json>(file, key, path);
        if (list.is_null()) return;
        words = list.is_string() ? words_of(list.get<std::string>())
                                 : io::json_get<std::vector<std::string>>(file, key, path);
    };
    read("train", paths.train_path);
    read("valid", paths.valid_path);
    read("test", paths.test_path);
}

}  // namespace lm::data
