// SPDX-License-Identifier: Apache-2.0
// The tables of fields, the options of lm-train and the JSON of a run's configuration have the same
// fields.
#include "train/config/run_json.hpp"
#include "io/json.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "metrics/record.hpp"
#include "spec/curriculum.hpp"
#include "spec/learning_rate.hpp"
#include "support/catch.hpp"

using namespace lm;
using config::Block;

namespace {

// A command line whose configuration has a value for every field of the tables, except the fields
// in `absent`. A model without one of the last flags has no key for it.
const std::string line =
    "--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 64 "
    "--mock-data --micro-batch-size 1 --global-batch-size 4 --train-iters 2 --lr 1e-3 --fp16 "
    "--device cpu --threads 1 --position-embedding-type rope --rotary-percent 0.5 "
    "--rotary-interleaved --use-rope-scaling --rope-scaling-factor 8 --apply-layernorm-1p "
    "--disable-bias-linear --add-qkv-bias --normalization RMSNorm --qk-layernorm-all-heads "
    "--attention-multiplier 0.5 --embedding-multiplier 2 --residual-multiplier 0.5 --logit-scale "
    "0.5 --norm-placement peri "
    "--use-parallel-residual --parallel-shared-norm --window-size 8,0 "
    "--window-attn-skip-freq 2 --no-rope-freq 2 --rope-local-base-freq 500 --llama-4-scaling-beta "
    "0.1";
// The last one needs another norm than the line has.
const std::set<std::string> absent = {"attention_backend", "deterministic_mode", "norm_bias"};

struct Program {
    cli::Options options{"lm-test", "a test"};
    config::TrainFlags flags;

    explicit Program(const std::string& more = "") {
        config::add_train_options(options, flags);
        std::istringstream words(line + " " + more);
        std::vector<std::string> arguments;
        for (std::string word; words >> word;) arguments.push_back(word);
        options.parse(arguments);
    }
};

// Returns the object of to_json() that has the fields of `block`.
const io::OrderedJson& object_of(const io::OrderedJson& json, Block block) {
    return block == Block::run ? json : json[name_of(block)];
}

// Adds the path of each value in `json` that is no object to `places` under its key.
void add_places(const io::OrderedJson& json, const std::string& path,
                std::map<std::string, std::vector<std::string>>& places) {
    for (const auto& [key, value] : json.items()) {
        const std::string place = path + "." + key;
        if (value.is_object()) {
            add_places(value, place, places);
        } else {
            places[key].push_back(place);
        }
    }
}

}  // namespace

TEST_CASE("each value of the configuration as JSON has one place") {
    const std::string curriculum =
        "--curriculum-learning-type seqlen --curriculum-min-difficulty 8 "
        "--curriculum-total-steps 1 ";
    for (const bool have_gpus : {false, true}) {
        Program program(curriculum + "--save out --load out --decoupled-lr 1e-3 " +
                        (have_gpus ? "--device auto" : ""));
        const io::OrderedJson json =
            to_json(train::resolve(program.flags, "lm-train", {.have_gpus = have_gpus}));
        std::map<std::string, std::vector<std::string>> places;
        add_places(json, "", places);
        CHECK(places.size() > 100);
        CHECK(places.contains("attention_backend") == have_gpus);
        for (const auto& [key, found] : places) {
            CAPTURE(key, found);
            CHECK(found.size() == 1);
        }
    }
}

TEST_CASE("the configuration as JSON has every field of the tables") {
    Program program;
    const io::OrderedJson json = to_json(train::resolve(program.flags, "lm-train"));
    config::for_each_section([&](const auto& fields) {
        for (const auto& field : fields) {
            if (field.block == Block::none) continue;
            CAPTURE(field.key());
            CHECK(object_of(json, *field.block).contains(field.key()) !=
                  absent.contains(field.key()));
        }
    });
}

TEST_CASE("every key of the model and of the schedule has one row in the tables") {
    Program program;
    const io::OrderedJson json = to_json(train::resolve(program.flags, "lm-train"));
    for (const Block block : {Block::model, Block::training}) {
        for (const auto& [key, value] : object_of(json, block).items()) {
            CAPTURE(key);
            int n_rows = 0;
            config::for_each_section([&, &name = key](const auto& fields) {
                for (const auto& field : fields) {
                    if (field.block == block && field.key() == name) ++n_rows;
                }
            });
            CHECK(n_rows == 1);
        }
    }
}

TEST_CASE("the ranks decide on GPUs and threads where the flags leave it open") {
    Program program;
    program.flags.device = {};
    const io::OrderedJson json =
        to_json(train::resolve(program.flags, "lm-train", {.n = 1, .have_gpus = true, .cores = 3}));
    CHECK(json["device"] == "cuda");
    CHECK(json["threads"] == 3);
    CHECK(program.flags.device.choice == "auto");
    CHECK_FALSE(program.flags.device.threads);
    program.flags.device.threads = 2;
    const io::OrderedJson on_cpu =
        to_json(train::resolve(program.flags, "lm-train", {.n = 1, .cores = 3}));
    CHECK(on_cpu["device"] == "cpu");
    CHECK(on_cpu["threads"] == 2);
}

TEST_CASE("every field of the tables with an option is an option of lm-train") {
    const Program program;
    config::for_each_section([&](const auto& fields) {
        for (const auto& field : fields) {
            const bool declared = !std::holds_alternative<std::monostate>(field.member);
            if (!declared) continue;
            CAPTURE(field.option);
            CHECK_NOTHROW(program.options.given(field.option.substr(0, field.option.find(','))));
        }
    });
}

TEST_CASE("the choices of an option are the names of the values") {
    const auto choices_of = [](std::string_view option) {
        std::vector<std::string> choices;
        config::for_each_section([&](const auto& fields) {
            for (const auto& field : fields) {
                if (field.option == option) choices = field.choices;
            }
        });
        std::ranges::sort(choices);
        return choices;
    };
    const auto sorted = [](std::vector<std::string> names) {
        std::ranges::sort(names);
        return names;
    };
    CHECK(choices_of("--lr-decay-style") == sorted(names_in(spec::decay_styles)));
    CHECK(choices_of("--weight-decay-incr-style") == sorted(names_in(spec::weight_decay_styles)));
    CHECK(choices_of("--log-format") == sorted(names_in(metrics::log_formats)));
    CHECK(choices_of("--lr-wsd-decay-style") == sorted(names_in(spec::anneal_styles)));
    CHECK(choices_of("--curriculum-schedule") == sorted(names_in(spec::curriculum_kinds)));
    CHECK(choices_of("--data-order") == sorted(names_in(data::data_orders)));
    CHECK(choices_of("--recompute-method") == sorted(names_in(spec::recompute_methods)));
    std::vector<std::string> granularities = names_in(spec::recompute_granularities);
    std::erase(granularities, "none");  // the default
    CHECK(choices_of("--recompute-granularity") == sorted(granularities));
}
