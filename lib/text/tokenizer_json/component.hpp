// SPDX-License-Identifier: Apache-2.0
// Reads the components of a tokenizer.json. An unknown key is an error that names the key.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>

#include "base/error.hpp"
#include "io/json.hpp"

namespace lm::text {

template <typename... Args>
[[noreturn]] void refuse(const std::string& path, fmt::format_string<Args...> format,
                         Args&&... args) {
    run_error(path, "{} is not supported: see the list of supported components in lm-preprocess(1)",
              fmt::format(format, std::forward<Args>(args)...));
}

// One component of a tokenizer.json, an object {"type": ..., ...}.
class Component {
  public:
    Component(const io::Json& json, const char* what, const std::string& path)
        : json_(&json), what_(what), path_(&path) {
        if (!json.is_object()) run_error(path, "the {} is not an object", what);
        type_ = io::json_get_or<std::string>(json, "type", "", path);
    }

    const std::string& type() const { return type_; }
    const std::string& path() const { return *path_; }
    bool flag(const char* key, bool fallback = false) const {
        return io::json_get_or<bool>(*json_, key, fallback, *path_);
    }
    std::string text(const char* key) const {
        return io::json_get<std::string>(*json_, key, *path_);
    }
    const io::Json& array(const char* key) const {
        const auto at = json_->find(key);
        if (at == json_->end() || !at->is_array())
            run_error(*path_, "{} {}: '{}' is missing or not a list", what_, type_, key);
        return *at;
    }
    // Returns the value of `key`, or null if it is missing.
    const io::Json& get(const char* key) const {
        static const io::Json null;
        const auto at = json_->find(key);
        return at == json_->end() ? null : *at;
    }
    // Throws Error(failure) if there is a key that is not in `known`, because the key might change
    // the ids.
    void only(std::initializer_list<std::string_view> known) const {
        for (const auto& [key, value] : json_->items()) {
            if (key == "type" || std::ranges::find(known, key) != known.end()) continue;
            refuse(*path_, "option '{}' of the {} {}", key, what_, type_);
        }
    }
    [[noreturn]] void refuse_type() const { refuse(*path_, "{} '{}'", what_, type_); }

  private:
    const io::Json* json_;
    const char* what_;
    const std::string* path_;
    std::string type_;
};

}  // namespace lm::text
