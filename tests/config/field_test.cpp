// SPDX-License-Identifier: Apache-2.0
// One table of fields gives options, JSON and the rule on resume.
#include "config/field.hpp"

#include "config/field_json.hpp"
#include "config/train_flags.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::config;

namespace {

// The values of a run with one rank.
struct Run {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;
    spec::Schedule schedule{
        {.seq_length = 8, .ramp = {.global_batch = 1}, .train_iters = 2, .lr = 1e-3}};
    std::vector<IterationRange> skipped;

    Resolved resolved() const {
        return {.model = model, .parallel = parallel, .schedule = schedule, .skipped = skipped};
    }
};

}  // namespace

TEST_CASE("the fields of a section are options and JSON in the same order") {
    cli::Options options("lm-test", "a test");
    CheckpointFlags flags;
    declare(options, load_fields(), flags);
    declare(options, save_fields(), flags);
    options.parse({"--save", "out", "--override-lr-scheduler", "--save-interval", "5k"});
    CHECK(flags.save == "out");
    CHECK(flags.override_schedule);
    io::OrderedJson json;
    const Run run;
    add_json(json, Block::checkpoints, load_fields(), &flags, run.resolved());
    add_json(json, Block::checkpoints, save_fields(), &flags, run.resolved());
    std::vector<std::string> keys;
    for (const auto& [key, value] : json.items()) keys.push_back(key);
    std::vector<std::string> printed;
    for (const auto& fields : {load_fields(), save_fields()}) {
        for (const auto& field : fields) {
            if (field.block == Block::checkpoints) printed.push_back(field.key());
        }
    }
    CHECK(keys == printed);
    CHECK(json["save"] == "out");
    CHECK(json["load"] == "");
    CHECK(json["fresh"] == false);
    CHECK(json["override_schedule"] == true);
    CHECK(json["save_interval"] == 5000);
}

TEST_CASE("a getter replaces the value of the flag, and a discarded value omits its key") {
    const Run run;
    Resolved resolved = run.resolved();
    resolved.validation_samples = 12;
    const ValidationFlags flags;
    io::OrderedJson json;
    add_json(json, Block::validation, validation_fields(), &flags, resolved);
    CHECK(json["samples"] == 12);
    CHECK(json["eval_interval"] == 1000);
    CHECK_THROWS(
        add_json<ValidationFlags>(json, Block::validation, validation_fields(), nullptr, resolved));
    for (const bool cuda : {false, true}) {
        resolved.cuda = cuda;
        io::OrderedJson training;
        add_json<DeviceFlags>(training, Block::training, device_fields(), nullptr, resolved);
        CHECK(training.contains("attention_backend") == cuda);
    }
}

TEST_CASE("fields that a resumed run refuses to change") {
    for (const char* key : {"lr", "min_lr", "lr_decay_style", "lr_warmup_samples", "weight_decay",
                            "lr_wsd_decay_samples", "curriculum_learning_type"}) {
        CAPTURE(key);
        CHECK(resume_rule(Block::training, key).on_resume == OnResume::schedule);
    }
    for (const char* key : {"seed", "data_order", "split"}) {
        CAPTURE(key);
        CHECK(resume_rule(Block::training, key).on_resume == OnResume::samples);
    }
    CHECK(resume_rule(Block::model, "seq_length").on_resume == OnResume::samples);
    CHECK(resume_rule(Block::training, "train_samples").on_resume == OnResume::sample_count);
    CHECK(resume_rule(Block::training, "initial_loss_scale").on_resume == OnResume::ignored);
    for (const char* key : {"clip_grad", "adam_eps", "global_batch_size", "data_path", "fp16"}) {
        CAPTURE(key);
        CHECK(resume_rule(Block::training, key).on_resume == OnResume::noted);
    }
}

TEST_CASE("a field's row names the flag of the messages") {
    const auto flag = [](const char* key) { return resume_rule(Block::model, key).flag; };
    CHECK(flag("layernorm_epsilon") == "--layernorm-epsilon");
    CHECK(flag("linear_bias") == "--disable-bias-linear");
    CHECK(resume_rule(Block::model, "linear_bias").clears);
    CHECK(flag("activation") == "the activation function");
    CHECK(resume_rule(Block::model, "seq_length").flag == "--seq-length");
    CHECK(resume_rule(Block::training, "lr_decay_samples").on_resume == OnResume::decay_end);
    CHECK_THROWS(resume_rule(Block::training, "no_such_field"));
}
