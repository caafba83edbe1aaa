// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json, parsed. Nearly all of it is the model's vocabulary and merges: these stay as
// simdjson leaves them, the rest is a small document.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>

#include "io/json.hpp"

namespace lm::text {

class TokenizerJsonFile {
  public:
    // Throws Error(failure) naming `path`.
    explicit TokenizerJsonFile(const std::string& path);

    const io::Json& rest() const { return rest_; }  // all but the two below
    // Of the model; nothing where there is none of that type. They live as long as this.
    const std::optional<simdjson::dom::object>& vocab() const { return vocab_; }
    const std::optional<simdjson::dom::array>& merges() const { return merges_; }

  private:
    void read(const simdjson::dom::element& whole);
    io::Json read_model(const simdjson::dom::object& model);

    simdjson::dom::parser parser_;
    io::Json rest_;
    std::optional<simdjson::dom::object> vocab_;
    std::optional<simdjson::dom::array> merges_;
};

}  // namespace lm::text
