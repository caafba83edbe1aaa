// SPDX-License-Identifier: Apache-2.0
// A parsed tokenizer.json. The vocabulary and the merges of the model, which are nearly the whole
// file, are kept as simdjson elements. The rest becomes a small JSON document.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>

#include "io/json.hpp"

namespace lm::text {

class TokenizerJsonFile {
  public:
    // Reads and parses `path`. Call it once, before the other functions. Errors are Error(failure)
    // with the path.
    void load(const std::string& path);

    const io::Json& rest() const { return rest_; }  // everything except vocab() and merges()
    // The tables of the model, valid while this object exists. nullopt if they are missing or have
    // an unexpected type.
    const std::optional<simdjson::dom::object>& vocab() const { return vocab_; }
    const std::optional<simdjson::dom::array>& merges() const { return merges_; }

  private:
    void read(const simdjson::dom::element& whole, const std::string& path);
    io::Json read_model(const simdjson::dom::object& model, const std::string& path);

    simdjson::dom::parser parser_;
    io::Json rest_;
    std::optional<simdjson::dom::object> vocab_;
    std::optional<simdjson::dom::array> merges_;
};

}  // namespace lm::text
