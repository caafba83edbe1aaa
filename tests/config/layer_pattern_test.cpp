// SPDX-License-Identifier: Apache-2.0
#include "config/layer_pattern.hpp"

#include "ckpt/format/model_json.hpp"
#include "io/json.hpp"
#include "spec/model.hpp"
#include "support/catch.hpp"
#include "support/odd_models.hpp"

using namespace lm;
using config::parse_layer_pattern;

TEST_CASE("layers are chosen by a number or a list, as Python reads it") {
    const auto list = [](const char* text) {
        return parse_layer_pattern("--flag", text, true).chosen;
    };
    CHECK(parse_layer_pattern("--flag", "4", true).every == 4);
    CHECK(list("[0, 1,1]") == std::vector<bool>{false, true, true});
    CHECK(list("([1]*3+[0])*2") == list("[1,1,1,0,1,1,1,0]"));
    CHECK(list("2*[1,0]+[1]") == list("[1,0,1,0,1]"));
    CHECK(parse_layer_pattern("--flag", "[1,0]", false).chosen == std::vector<bool>{false, true});
    for (const char* text : {"", "0", "-1", "[2]", "[1", "[1]*", "[]", "[1]+2", "[[1]]", "1+1", "x",
                             "[1]*100001", "[1]*1000*1000", "((((((((((((((((((((((1"}) {
        CHECK_THROWS_AS(parse_layer_pattern("--flag", text, true), Error);
    }
    for (const char* text : {"4", "[1,1,0]"}) {
        for (const bool marks : {false, true})
            CHECK(config::text_of(parse_layer_pattern("--flag", text, marks), marks) == text);
    }
}

TEST_CASE("a pattern gives layers their window and their positions") {
    const spec::ModelConfig model = test::patterned_model(5, 4, 2);
    for (i64 layer = 0; layer < 5; ++layer) {
        CHECK(model.layer(layer).window == (layer % 2 == 1 ? 0 : 2));
        CHECK(is_rotary(model.layer(layer).position) == (layer != 0 && layer != 4));
    }
    CHECK(spec::layer_kinds(model).size() == 3);
    const spec::ModelConfig again =
        ckpt::model_from_json(io::Json(ckpt::to_json(model, false)), "here");
    CHECK(again.full_layers == model.full_layers);
    CHECK(again.unrotated_layers == model.unrotated_layers);
    // Equal choices are equal.
    spec::ModelConfig listed = model;
    listed.full_layers = parse_layer_pattern("--window-attn-skip-freq", "[1,0,1,0,1]", false);
    listed.unrotated_layers.every = 7;
    listed.resolve();
    CHECK(listed.full_layers == model.full_layers);
    CHECK(listed.unrotated_layers.empty());
    spec::ModelConfig wrong = model;
    wrong.n_layers = 4;
    CHECK_THROWS_AS(wrong.resolve(), Error);
}
