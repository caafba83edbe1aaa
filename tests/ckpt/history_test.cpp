// SPDX-License-Identifier: Apache-2.0
// Random histories of a directory (save, resume, rollback, damage, prune, copy) against a simple
// model: a list of steps with their parents. The model alone predicts the step that a resume loads
// and the actions of prune.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/log.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/rollback.hpp"
#include "ckpt/history/save.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/copy.hpp"
#include "ckpt/verbs/prune.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;

namespace {

spec::ModelConfig tiny_model() {
    spec::ModelConfig config;
    config.n_layers = 1;
    config.hidden = 4;
    config.n_heads = 1;
    config.seq_length = 4;
    config.vocab_size = 5;
    config.resolve();
    return config;
}

class Model {
  public:
    struct Step {
        i64 number = 0;
        int parent = -1;
        bool damaged = false;
        bool full = true;  // has optimizer state
    };

    std::vector<Step> steps;
    std::map<i64, int> present;  // [iteration] index of the step with this name
    std::set<int> aside;         // steps in abandoned-gN
    int latest = -1;
    int run = -1;  // the step that the run saved or loaded last

    bool is_ancestor(int step, int of) const {
        for (; of >= 0; of = steps[static_cast<size_t>(of)].parent) {
            if (of == step) return true;
        }
        return false;
    }

    const Step& at(int id) const { return steps[static_cast<size_t>(id)]; }

    // The complete steps of the current branch, ascending.
    std::vector<i64> branch() const {
        std::vector<i64> numbers;
        for (const auto& [number, id] : present) {
            if (!at(id).damaged && is_ancestor(id, latest)) numbers.push_back(number);
        }
        return numbers;
    }

    void save(i64 number) {
        const int id = static_cast<int>(steps.size());
        steps.push_back({number, run});
        set_aside(number);
        present[number] = id;
        latest = run = id;
    }

    void set_aside(i64 number) {
        const auto found = present.find(number);
        if (found == present.end()) return;
        aside.insert(found->second);
        present.erase(found);
    }

    void roll_back(i64 number) {
        latest = present.at(number);
        run = -2;  // superseded
        std::vector<i64> later;
        for (const auto& [other, id] : present) {
            if (other > number) later.push_back(other);
        }
        for (const i64 other : later) set_aside(other);
    }
};

class History {
  public:
    explicit History(u64 seed) : random_(seed), config_(tiny_model()), buffers_(config_, {}) {}

    void run() {
        generation_ = claim(directory());
        for (int n = 0; n < 16; ++n) {
            act();
            check();
        }
    }

  private:
    const std::string& directory() const { return scratch_.path(); }
    std::string path(i64 number) const { return scratch_ / step_name(number); }
    i64 below(i64 n) { return static_cast<i64>(random_() % static_cast<u64>(n)); }

    std::vector<i64> undamaged() const {
        std::vector<i64> numbers;
        for (const auto& [number, id] : model_.present) {
            if (!model_.at(id).damaged) numbers.push_back(number);
        }
        return numbers;
    }

    // A run that was superseded, or has nothing to load, can only start again.
    void act() {
        const bool may_save = model_.run > -2;
        switch (below(10)) {
            case 0:
            case 1:
            case 2:
            case 3:
                return may_save ? save() : resume();
            case 4:
                return resume();
            case 5:
                return resume_earlier();
            case 6:
                return roll_back_somewhere();
            case 7:
                return damage();
            case 8:
                return prune_some();
            default:
                return below(2) == 0 ? copy_one() : forget_generations();
        }
    }

    void save() {
        const i64 last = model_.run >= 0 ? model_.at(model_.run).number : 0;
        const i64 number = last + 1 + below(3);
        ckpt::save(generation_, test::info_of(config_, number), buffers_.pieces());
        model_.save(number);
    }

    void resume() {
        const std::vector<i64> branch = model_.branch();
        if (branch.empty()) return;
        start_from(branch.back());
    }

    void resume_earlier() {
        const std::vector<i64> branch = model_.branch();
        if (branch.empty()) return;
        start_from(branch[static_cast<size_t>(below(static_cast<i64>(branch.size())))]);
    }

    void start_from(i64 number) {
        generation_ = claim(directory(), tip_of(read_manifest(path(number))));
        model_.run = model_.present.at(number);
    }

    void roll_back_somewhere() {
        const std::vector<i64> numbers = undamaged();
        if (numbers.empty()) return;
        const i64 number = numbers[static_cast<size_t>(below(static_cast<i64>(numbers.size())))];
        roll_back(directory(), number);
        model_.roll_back(number);
    }

    void damage() {
        const std::vector<i64> numbers = undamaged();
        if (numbers.empty()) return;
        const i64 number = numbers[static_cast<size_t>(below(static_cast<i64>(numbers.size())))];
        test::write(path(number) + "/manifest.json", "{}");
        model_.steps[static_cast<size_t>(model_.present.at(number))].damaged = true;
    }

    void prune_some() {
        PruneRules rules;
        if (below(3) > 0) rules.keep.last = 1 + below(3);
        if (below(2) == 0) rules.keep.every = 2 + below(3);
        if (below(4) == 0) rules.keep.schedule = {{1, 4}, {3, 0}};
        if (below(3) == 0) rules.full_steps = 1 + below(2);
        rules.abandoned = below(3) == 0;
        const std::vector<i64> branch = model_.branch();
        const Lineage lineage = read_lineage(directory());
        const PrunePlan plan = plan_prune(directory(), lineage, branch, rules);
        std::set<std::string> planned;
        for (const PruneAction& action : plan.actions) {
            planned.insert(fmt::format("{} {}", name_in(prune_kinds, action.kind), action.name));
        }
        CHECK(planned == expected_actions(rules, branch));
        std::set<std::string> done;
        prune(directory(), plan, [&](const PruneAction& action) {
            done.insert(fmt::format("{} {}", name_in(prune_kinds, action.kind), action.name));
        });
        CHECK(done == planned);
        CHECK(plan_prune(directory(), read_lineage(directory()), model_.branch(), rules)
                  .actions.empty());
    }

    // Applies the rules to the model; returns the actions as "KIND NAME".
    std::set<std::string> expected_actions(const PruneRules& rules,
                                           const std::vector<i64>& branch) {
        std::set<std::string> actions;
        std::vector<i64> kept;
        for (size_t at = 0; at < branch.size(); ++at) {
            const i64 number = branch[at];
            const auto newer = static_cast<i64>(branch.size() - 1 - at);
            const bool by_schedule =
                !rules.keep.schedule.empty() && (number <= 4 || number % 3 == 0);
            const bool keep = rules.keep.empty() || newer < std::max<i64>(1, rules.keep.last) ||
                              (rules.keep.every > 0 && number % rules.keep.every == 0) ||
                              by_schedule;
            if (keep) {
                kept.push_back(number);
            } else {
                actions.insert("step " + step_name(number));
                model_.present.erase(number);
            }
        }
        for (size_t at = 0; rules.full_steps && at < kept.size(); ++at) {
            Model::Step& step = model_.steps[static_cast<size_t>(model_.present.at(kept[at]))];
            const bool old = static_cast<i64>(kept.size() - at) > *rules.full_steps;
            if (old && std::exchange(step.full, false))
                actions.insert("optimizer_state " + step_name(kept[at]));
        }
        if (!rules.abandoned) return actions;
        for (const i64 number : undamaged()) {
            if (model_.is_ancestor(model_.present.at(number), model_.latest)) continue;
            actions.insert("abandoned " + step_name(number));
            model_.present.erase(number);
        }
        for (const std::string& name : abandoned_in(directory()))
            actions.insert("abandoned " + name);
        model_.aside.clear();
        return actions;
    }

    void copy_one() {
        const std::vector<i64> numbers = undamaged();
        if (numbers.empty()) return;
        const i64 number = numbers[static_cast<size_t>(below(static_cast<i64>(numbers.size())))];
        const test::ScratchDirectory other;
        copy(plan_copy(Checkpoint::open(path(number)), false), other / step_name(number), {});
        CHECK(test::read(other / step_name(number) + "/manifest.json") ==
              test::read(path(number) + "/manifest.json"));
        CHECK(ckpt::open(other.path()).manifest().counters.iteration == number);
    }

    // Removes the generation files. fence.json and `latest` still have the fence and the lineage.
    void forget_generations() {
        for (const std::string& name : io::list_directory(directory())) {
            if (name.starts_with("generation-")) io::remove_tree(scratch_ / name);
        }
    }

    void check() {
        std::vector<i64> numbers;
        for (const auto& [number, id] : model_.present) numbers.push_back(number);
        CHECK(steps_in(directory()) == numbers);
        size_t n_aside = 0;
        for (const std::string& name : abandoned_in(directory())) {
            n_aside += io::list_directory(scratch_ / name).size();
        }
        CHECK(n_aside == model_.aside.size());
        const std::vector<i64> branch = model_.branch();
        if (branch.empty()) {
            CHECK(test::error_of([&] {
                      if (!open_if_any(directory())) run_error("", "none");
                  }) != "no error");
        } else {
            CHECK(ckpt::open(directory()).manifest().counters.iteration == branch.back());
        }
    }

    std::mt19937_64 random_;
    test::ScratchDirectory scratch_;
    spec::ModelConfig config_;
    test::Buffers buffers_;
    Generation generation_;
    Model model_;
};

void run_histories(u64 first, u64 last) {
    set_log_sink(nullptr);
    for (u64 seed = first; seed <= last; ++seed) {
        INFO("seed " << seed);
        History(seed).run();
    }
}

}  // namespace

TEST_CASE("random histories of a directory follow the model") {
    run_histories(1, 150);
}

// tests/e2e/ckpt_histories.sh runs these.
TEST_CASE("more random histories", "[.histories]") {
    run_histories(151, 1000);
}
