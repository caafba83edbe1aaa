// SPDX-License-Identifier: Apache-2.0
// Exports to Megatron's layouts, imported again. tests/live compares with files that torch writes.
#include <array>

#include "../ckpt/support.hpp"
#include "../support/odd_models.hpp"
#include "ckpt/format/model_json.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/diff.hpp"
#include "convert/conversions.hpp"
#include "convert/formats/model_format.hpp"
#include "convert/megatron/from_megatron_deepspeed.hpp"
#include "convert/megatron/from_megatron_lm.hpp"
#include "convert/megatron/megatron_args.hpp"
#include "convert/megatron/megatron_names.hpp"
#include "convert/megatron/to_deepspeed.hpp"
#include "convert/megatron/to_megatron.hpp"
#include "convert/torch/torch_file.hpp"
#include "convert/torch/torch_writer.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::convert;

namespace {

std::vector<spec::ModelConfig> models() {
    auto bloom = test::bloom_model(4, 6, 3);
    bloom.ffn_hidden = 20;
    auto llama = test::llama_model(4, 8, 4);
    llama.ffn_hidden = 12;
    auto nemotron = test::nemotron_model(4, 8, 4);
    nemotron.ffn_hidden = 12;
    auto variants = test::llama_model(4, 8, 4);
    variants.ffn_hidden = 12;
    variants.rotary_interleaved = true;
    variants.rope_scaling = spec::usual_scaling(spec::RotaryRule::llama3);
    variants.window = 3;
    auto patterned = test::patterned_model(4, 8, 4);
    patterned.ffn_hidden = 12;
    auto yarn = llama;
    yarn.rope_scaling = spec::usual_scaling(spec::RotaryRule::yarn);
    yarn.rope_scaling.factor = 4;
    yarn.rope_scaling.mscale_all_dim = 0.5;
    yarn.rope_scaling.truncate = false;
    auto linear = llama;
    linear.rope_scaling = spec::usual_scaling(spec::RotaryRule::linear);
    linear.rope_scaling.factor = 2;
    return {bloom, llama, nemotron, variants, patterned, yarn, linear};
}

}  // namespace

TEST_CASE("exports to Megatron, imported again, are bitwise equal in every layout") {
    const test::ScratchDirectory scratch;
    for (const spec::ModelConfig& config : models()) {
        INFO(name_of(config.position));
        test::save_grid(scratch / "a", config, {}, 3, 5);
        const ckpt::Manifest wanted = ckpt::open(scratch / "a").manifest();
        for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 4}, {2, 2}}) {
            INFO("tp " << tp << ", pp " << pp);
            to_megatron_lm(test::request_of(scratch / "a", scratch / "lm", tp, pp));
            CHECK(detect_format(scratch / "lm") == Format::megatron_lm);
            CHECK(io::exists(scratch / (pp > 1 ? "lm/iter_0000003/mp_rank_00_000"
                                               : "lm/iter_0000003/mp_rank_00")));
            from_megatron_lm(test::request_of(scratch / "lm", scratch / "b"));
            CHECK(test::same(scratch / "a", scratch / "b", ckpt::all_kinds));
            const ckpt::Manifest got = ckpt::open(scratch / "b").manifest();
            CHECK(ckpt::to_json(got.model) == ckpt::to_json(wanted.model));
            CHECK(got.counters.consumed_samples == wanted.counters.consumed_samples);
            CHECK(got.counters.optimizer_step == wanted.counters.optimizer_step);

            for (const MegatronNames names : {MegatronNames::local, MegatronNames::classic}) {
                INFO(name_of(names));
                if (config.position == spec::PositionEmbedding::alibi) continue;
                ConversionRequest request =
                    test::request_of(scratch / "a", scratch / "other", tp, pp);
                request.names = names;
                request.vocab_multiple = 8;
                to_megatron_lm(request);
                from_megatron_lm(test::request_of(scratch / "other", scratch / "d"));
                CHECK(test::same(scratch / "a", scratch / "d", ckpt::all_kinds));
                for (const char* name : {"other", "d"}) io::remove_tree(scratch / name);
            }

            to_megatron_deepspeed(test::request_of(scratch / "a", scratch / "ds", tp, pp));
            CHECK(detect_format(scratch / "ds") == Format::megatron_deepspeed);
            from_megatron_deepspeed(test::request_of(scratch / "ds", scratch / "c"));
            CHECK(test::same(scratch / "a", scratch / "c", ckpt::all_kinds));
            for (const char* name : {"lm", "ds", "b", "c"}) io::remove_tree(scratch / name);
        }
        io::remove_tree(scratch / "a");
    }
}

TEST_CASE("DeepSpeed's engine finds what it expects in an export") {
    const test::ScratchDirectory scratch;
    test::save_grid(scratch / "a", models()[0], {}, 3, 5);  // a tied head
    to_megatron_deepspeed(test::request_of(scratch / "a", scratch / "ds", 2, 2));
    const std::string step = scratch / "ds/global_step3";
    const TorchFile last = TorchFile::open(step + "/mp_rank_03_model_states.pt");
    CHECK(last.root().find("mp_world_size")->integer == 4);  // tensor ranks times stages
    // The last stage starts with a copy of the whole embedding module.
    const PickleValue& shapes = *last.root().find("param_shapes");
    CHECK(shapes.items.at(0)->items.at(0)->text == "tied_modules.embed.word_embeddings.weight");
    CHECK(shapes.items.at(1)->items.at(0)->text ==
          "tied_modules.embed.word_embeddings.norm.weight");
    const TorchFile zero = TorchFile::open(step + "/zero_pp_rank_0_mp_rank_03_optim_states.pt");
    const PickleValue& state = *zero.root().find("optimizer_state_dict");
    CHECK(state.find("ds_version")->text == "0.3.17");
    CHECK(state.find("param_slice_mappings")->items.size() == 2);
    const PickleValue& groups = *state.find("base_optimizer_state")->find("param_groups");
    REQUIRE(groups.items.size() == 2);
    for (const PickleValue* group : groups.items) {
        CHECK(group->find("betas")->items.size() == 2);
        CHECK(group->find("lr")->is(PickleValue::Kind::real));
        CHECK(group->find("eps")->real == 1e-8);
        CHECK(group->find("weight_decay")->real == (group == groups.items[0] ? 0.01 : 0.0));
    }
}

TEST_CASE("--force replaces an earlier export to Megatron, but not the directory of a run") {
    const test::ScratchDirectory scratch;
    test::save_grid(scratch / "a", test::bloom_model(4, 6, 3), {}, 3, 5);
    for (const auto& [function, step] : {std::pair{&to_megatron_lm, "lm/iter_0000003"},
                                         {&to_megatron_deepspeed, "ds/global_step3"}}) {
        const auto to = function;
        ConversionRequest request = test::request_of(scratch / "a", scratch / std::string(step, 2));
        to(request);
        CHECK_THAT(test::error_of([&] { to(request); }, Exit::usage), ContainsSubstring("--force"));
        request.force = true;
        CHECK(test::error_of([&] { to(request); }) == "no error");
        std::string other = scratch / step;
        other.back() = '4';
        io::make_directories(other);
        CHECK_THAT(test::error_of([&] { to(request); }, Exit::usage),
                   ContainsSubstring("directory of a run"));
        CHECK(io::exists(other));
    }
}

TEST_CASE("incomplete and unsuitable Megatron checkpoints are refused") {
    const test::ScratchDirectory scratch;
    test::save_grid(scratch / "a", models()[1], {}, 3, 5);
    CHECK_THAT(
        test::error_of([&] { to_megatron_lm(test::request_of(scratch / "a", scratch / "x", 3)); },
                       Exit::usage),
        ContainsSubstring("--tensor-model-parallel-size: 3 "));
    CHECK_THAT(test::error_of(
                   [&] { to_megatron_lm(test::request_of(scratch / "a", scratch / "x", 1, 3)); },
                   Exit::usage),
               HasInOrder("--pipeline-model-parallel-size: 3 ", "4 layers"));
    CHECK_FALSE(io::exists(scratch / "x"));
    to_megatron_lm(test::request_of(scratch / "a", scratch / "lm", 2, 2));
    io::remove_tree(scratch / "lm/iter_0000003/mp_rank_01_001");
    CHECK_THAT(
        test::error_of([&] { from_megatron_lm(test::request_of(scratch / "lm", scratch / "x")); }),
        HasInOrder("mp_rank_01_001/model_optim_rng.pt: ", "2 tensor ranks"));
    to_megatron_deepspeed(test::request_of(scratch / "a", scratch / "ds", 2));
    io::remove_tree(scratch / "ds/global_step3/layer_03-model_01-model_states.pt");
    CHECK_THAT(test::error_of([&] {
                   from_megatron_deepspeed(test::request_of(scratch / "ds", scratch / "x"));
               }),
               HasInOrder("layer 3 of tensor rank 1 ", "missing"));
    io::remove_tree(scratch / "ds");
    to_megatron_deepspeed(test::request_of(scratch / "a", scratch / "ds"));
    io::remove_tree(scratch / "ds/global_step3/layer_06-model_00-model_states.pt");
    CHECK_THAT(test::error_of([&] {
                   from_megatron_deepspeed(test::request_of(scratch / "ds", scratch / "x"));
               }),
               ContainsSubstring("parameter 6.weight "));
    CHECK_FALSE(io::exists(scratch / "x"));
}

TEST_CASE("arguments of Megatron that change the arithmetic are refused by name") {
    const test::ScratchDirectory scratch;
    for (const char* name : {"", "qk_l2_norm", "rotary_percent"}) {
        const std::string argument = name;
        PickleWriter pickle;
        pickle.open_namespace();
        for (const char* size : {"num_layers", "hidden_size", "num_attention_heads", "seq_length",
                                 "padded_vocab_size"}) {
            pickle.key(size);
            pickle.integer(8);
        }
        if (!argument.empty()) pickle.key(argument);
        if (argument == "qk_l2_norm") {
            pickle.boolean(true);
        } else if (!argument.empty()) {
            pickle.real(0.5);  // yarn rotates whole heads, whatever the argument says
            pickle.key("position_embedding_type").text("yarn");
        }
        pickle.close_namespace();
        const std::string path = scratch / ("args" + argument + ".pt");
        TorchWriter::create(path, std::move(pickle)).commit();
        const TorchFile file = TorchFile::open(path);
        const auto read = [&] { megatron_model(file.root(), nullptr, {}, {}, path); };
        if (argument.empty()) {
            CHECK_NOTHROW(read());
        } else {
            CHECK_THAT(test::error_of(read, Exit::usage), ContainsSubstring("args." + argument));
        }
    }
}

TEST_CASE("numbers in the names of files and tensors") {
    CHECK(parse_number("0012") == 12);
    CHECK(parse_number("123456789012") == 123456789012);
    for (const char* text : {"", "12a", "-1", "+1", " 1", "1234567890123"}) {
        INFO(text);
        CHECK(!parse_number(text));
    }
    const auto name = parse_numbered("3.mlp.dense_h_to_4h.weight");
    REQUIRE(name);
    CHECK(name->number == 3);
    CHECK(name->rest == "mlp.dense_h_to_4h.weight");
    for (const char* text : {"3", "3mlp", ".mlp", "mlp.3"}) CHECK(!parse_numbered(text));
}
