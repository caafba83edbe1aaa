// SPDX-License-Identifier: Apache-2.0
// The fields of a run's configuration. Each section (schedule, checkpoints, logging, ...) has one
// table of fields. These tables define the options of the command line, the JSON of --print-config
// and of a checkpoint's manifest, and the comparison on resume.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "base/named.hpp"
#include "cli/options.hpp"
#include "io/json_fwd.hpp"

namespace lm::config {

// The JSON object that holds a field.
enum class Block {
    none,
    model,
    run,
    parallel,
    training,
    validation,
    checkpoints,
    stopping,
    logging
};
// The names of the JSON objects. The fields of Block::run have no object of their own.
inline constexpr std::array blocks{Named{Block::model, "model"},
                                   Named{Block::parallel, "parallel"},
                                   Named{Block::training, "schedule"},
                                   Named{Block::validation, "validation"},
                                   Named{Block::checkpoints, "checkpoints"},
                                   Named{Block::stopping, "stopping"},
                                   Named{Block::logging, "logging"}};
inline std::string_view name_of(Block block) {
    return name_in(blocks, block);
}

// The reaction of a resumed run when the value of a field differs from the value in the checkpoint.
// The resumed run compares only the fields of Block::model and Block::training.
enum class OnResume {
    noted,         // prints a note
    ignored,       // does nothing, because a resumed run does not use the value
    refused,       // Block::model only: refuses the value, because the weights fit no other model
    refused_rope,  // as `refused`, but only for a model with rotary embeddings
    schedule,      // needs --override-opt_param-scheduler, else refuses the value
    decay_end,     // as `schedule`, but only for a learning rate that decays
    samples,       // needs --override-data, because the samples or their order change
    sample_count,  // as `samples`, but only for a --data-order that depends on the number of
                   // samples
};

struct Resolved;  // config/resolved.hpp

template <typename Section>
struct Field {
    using Member =
        std::variant<std::monostate, bool Section::*, i64 Section::*, double Section::*,
                     std::string Section::*, std::optional<i64> Section::*,
                     std::optional<double> Section::*, std::vector<i64> Section::*,
                     std::vector<std::string> Section::*, cli::WithDefault<i64> Section::*,
                     cli::WithDefault<double> Section::*, cli::WithDefault<std::string> Section::*>;

    std::string_view option;  // "--name" or "--name,--alias"; empty: no option
    Member member;
    // Returns the value in JSON; a discarded one omits the key. nullptr: the value of `member`.
    io::OrderedJson (*json)(const Resolved&) = nullptr;
    std::string_view metavar;
    std::string_view help;
    std::vector<std::string> choices;
    std::optional<Block> block;   // default, as for on_resume: that of the table (FieldsIn)
    std::string_view name;        // name in JSON; empty: the option's name
    bool clears = false;          // the option sets a bool to false
    bool optional_value = false;  // without a value, the option sets the first of `choices`
    std::optional<OnResume> on_resume;

    // Returns the key in JSON: `name`, or if it is empty, the option's first name with '_' instead
    // of '-'.
    std::string key() const {
        if (!name.empty()) return std::string(name);
        std::string text(option.substr(2, option.find(',') - 2));
        for (char& c : text) c = c == '-' ? '_' : c;
        return text;
    }

    // Returns the name of the flag in messages: the option's first name. For a field without
    // an option: its `help`, or if that is empty, the key in the form of an option.
    std::string flag() const {
        if (!option.empty()) return std::string(option.substr(0, option.find(',')));
        if (!help.empty()) return std::string(help);
        std::string text = "--" + key();
        for (char& c : text) c = c == '_' ? '-' : c;
        return text;
    }
};

template <typename Section>
using Fields = std::vector<Field<Section>>;

// A table whose fields have `block` and `on_resume`, unless their row states another. Fields of
// Block::none are neither printed nor compared.
template <typename Section, Block block, OnResume on_resume = OnResume::noted>
struct FieldsIn : Fields<Section> {
    FieldsIn(std::initializer_list<Field<Section>> rows) : Fields<Section>(rows) {
        for (Field<Section>& field : *this) {
            field.block = field.block.value_or(block);
            field.on_resume = field.on_resume.value_or(on_resume);
        }
    }
};

// Declares the options of `fields`, which set the members of `section`. `section` must outlive
// parsing and must not move.
template <typename Section>
void declare(cli::Options& options, const Fields<Section>& fields, Section& section) {
    for (const Field<Section>& field : fields) {
        const std::string help(field.help);
        const std::string metavar(field.metavar);
        const auto declare_one = [&](auto member) {
            using Member = decltype(member);
            if constexpr (!std::is_same_v<Member, std::monostate>) {
                using Value = std::remove_reference_t<decltype(section.*member)>;
                auto* const target = &(section.*member);
                if constexpr (std::is_same_v<Value, bool>) {
                    field.clears ? options.flag_off(field.option, target, help)
                                 : options.flag(field.option, target, help);
                } else if constexpr (std::is_same_v<Value, std::vector<i64>> ||
                                     std::is_same_v<Value, std::vector<std::string>>) {
                    options.values(field.option, target, metavar, help);
                } else {
                    if constexpr (std::is_same_v<Value, std::string> ||
                                  std::is_same_v<Value, cli::WithDefault<std::string>>) {
                        if (!field.choices.empty()) {
                            options.choice(field.option, target, field.choices, help);
                            if (field.optional_value) options.value_is_optional();
                            return;
                        }
                    }
                    options.value(field.option, target, metavar, help);
                }
            }
        };
        std::visit(declare_one, field.member);
    }
}

}  // namespace lm::config
