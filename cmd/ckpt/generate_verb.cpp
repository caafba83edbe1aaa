// SPDX-License-Identifier: Apache-2.0
// lm-ckpt generate: continues prompts with the weights of a checkpoint, on the CPU.
#include <unistd.h>

#include <memory>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "cli/main.hpp"
#include "engine_options.hpp"
#include "eval/generate_text.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

constexpr const char* prompt_option = "--prompt";

struct Args {
    std::string path;
    std::optional<std::string> prompt;
    std::optional<std::string> prompts;
    i64 max_new_tokens = 100;
    std::optional<double> temperature;
    std::optional<i64> top_k;
    std::optional<double> top_p;
    i64 seed = 1234;
    std::vector<std::string> stops;
    bool ignore_end = false;
    bool cut_prompts = false;
    bool json = false;
    bool quiet = false;
    EngineArgs engine;
};

eval::Sampling sampling_of(const Args& args) {
    const bool samples = args.temperature || args.top_k || args.top_p;
    eval::Sampling sampling{.temperature = args.temperature.value_or(samples ? 1.0 : 0.0),
                            .top_k = args.top_k.value_or(0),
                            .top_p = args.top_p.value_or(1.0),
                            .seed = static_cast<u64>(args.seed)};
    if (sampling.temperature < 0) {
        usage_error("--temperature", "must be at least 0 (0: greedy), got {}",
                    sampling.temperature);
    }
    if (sampling.top_p <= 0 || sampling.top_p > 1) {
        usage_error("--top-p", "must be above 0 and at most 1, got {}", sampling.top_p);
    }
    if (sampling.temperature == 0 && (args.top_k || args.top_p)) {
        usage_error(
            "--temperature",
            "0 selects the most probable token and does not use --top-k and --top-p: remove "
            "these options");
    }
    return sampling;
}

// A prompt, given as a text or as ids.
struct Prompt {
    eval::GenerateRequest request;
    std::optional<std::string> text;
};

Prompt base_prompt(const Args& args) {
    Prompt prompt;
    prompt.request.max_new_tokens = args.max_new_tokens;
    prompt.request.stops = args.stops;
    prompt.request.ignore_end = args.ignore_end;
    return prompt;
}

// Returns the texts of `value`, which is a text or a list of texts.
std::vector<std::string> texts_of(const io::Json& value, const std::string& where) {
    if (value.is_string()) return {value.get<std::string>()};
    return io::json_as<std::vector<std::string>>(value, "'stop'", where);
}

// Parses {"prompt": TEXT or [ids], "max_new_tokens": N, "stop": TEXT or [TEXT, ...]}.
Prompt parse_prompt(const Args& args, const RequestLine& line, u64 number) {
    Prompt prompt = base_prompt(args);
    eval::GenerateRequest& request = prompt.request;
    request.object = line.where;
    request.sequence = number;
    const io::Json object = io::parse_json(line.text, line.where);
    const auto value = io::json_get<io::Json>(object, "prompt", line.where);
    if (value.is_array()) {
        request.prompt = io::json_as<std::vector<i32>>(value, "'prompt'", line.where);
    } else {
        prompt.text = io::json_as<std::string>(value, "'prompt'", line.where);
    }
    request.max_new_tokens =
        io::json_get_or<i64>(object, "max_new_tokens", request.max_new_tokens, line.where);
    if (request.max_new_tokens < 0) {
        run_error(line.where, "'max_new_tokens' must be at least 0, got {}",
                  request.max_new_tokens);
    }
    if (object.contains("stop")) request.stops = texts_of(object["stop"], line.where);
    return prompt;
}

// Removes the first tokens of the prompt when prompt and new tokens together are longer than the
// context.
void cut(eval::GenerateRequest& request, i64 context) {
    const i64 room = std::max<i64>(1, context - request.max_new_tokens);
    const i64 beyond = std::max<i64>(0, std::ssize(request.prompt) - room);
    request.prompt.erase(request.prompt.begin(), request.prompt.begin() + beyond);
}

void print_json(const Prompt& prompt, const eval::Generated& result, bool texts) {
    io::OrderedJson object;
    if (prompt.text) object["prompt"] = *prompt.text;
    if (texts) object["text"] = result.text;
    object["prompt_tokens"] = prompt.request.prompt.size();
    object["ids"] = result.ids;
    object["finish"] = name_in(eval::finishes, result.finish);
    cli::write_stdout(io::json_line(object));
    cli::flush_stdout();
}

void print_part(std::string_view text) {
    cli::write_stdout(text);
    cli::flush_stdout();
}

// Continues prompts with a model and its tokenizer. Counts the tokens and measures the time.
class Generation {
  public:
    Generation(const Args& args, const eval::Sampling& sampling)
        : args_(args),
          sampling_(sampling),
          model_(eval::open_model(args.path)),
          tokenizer_(eval::find_tokenizer(model_, args.engine.tokenizer)) {}

    // Converts a text to ids. Throws Error for a prompt that the model cannot continue.
    void encode(Prompt& prompt) const {
        eval::GenerateRequest& request = prompt.request;
        if (prompt.text) {
            if (const i64 bad = find_invalid_utf8(*prompt.text); bad >= 0) {
                usage_error(request.object, "is not valid UTF-8 at byte {}", bad + 1);
            }
            eval::require_tokenizer(model_, tokenizer_);
            request.prompt = tokenizer_.tokenizer->encode(*prompt.text);
        }
        if (args_.cut_prompts) cut(request, model_.tensors->model().max_positions);
        check_stops(request);
        eval::check_prompt(request, model_.tensors->model(), tokenizer_);
    }

    void load() { engine_ = load_engine(*model_.tensors, args_.engine); }

    // Generates the continuation and prints it: a JSON object at the end, or the text while the
    // model generates it.
    void print(const Prompt& prompt) {
        const bool json = args_.json || args_.prompts;
        const eval::Generated result =
            generate(*engine_, tokenizer_, prompt.request, sampling_,
                     json ? eval::TextSink{} : eval::TextSink{print_part});
        if (json)
            print_json(prompt, result, tokenizer_.tokenizer != nullptr);
        else
            print_part("\n");
        n_prompts_ += 1;
        n_prompt_ += std::max<i64>(1, std::ssize(prompt.request.prompt));
        n_new_ += std::ssize(result.ids);
        prompt_s_ += result.prompt_s;
        tokens_s_ += result.tokens_s;
        if (result.finish == eval::Finish::context && !args_.quiet) {
            note("{}: stopped at the longest context of the model, {} tokens",
                 prompt.request.object, engine_->context());
        }
    }

    void log_speed() const {
        if (args_.quiet) return;
        const double rate = static_cast<double>(n_new_ - n_prompts_) / std::max(tokens_s_, 1e-9);
        note("{}: {} prompt token{} in {}, {} new token{}{}", model_.tensors->path(), n_prompt_,
             n_prompt_ == 1 ? "" : "s", human_duration(prompt_s_), n_new_, n_new_ == 1 ? "" : "s",
             rate > 0 ? fmt::format(", {:.1f} tokens/s", rate) : "");
    }

  private:
    void check_stops(const eval::GenerateRequest& request) const {
        if (request.stops.empty()) return;
        if (!tokenizer_.tokenizer) {
            usage_error("--stop", "needs a tokenizer: give --tokenizer-model FILE");
        }
        if (std::ranges::find(request.stops, "") != request.stops.end()) {
            usage_error(request.object, "a stop text is empty: give a text");
        }
    }

    const Args& args_;
    eval::Sampling sampling_;
    eval::OpenedModel model_;
    eval::ModelTokenizer tokenizer_;
    std::unique_ptr<eval::Engine> engine_;
    i64 n_prompts_ = 0;
    i64 n_prompt_ = 0;  // tokens
    i64 n_new_ = 0;     // tokens
    double prompt_s_ = 0;
    double tokens_s_ = 0;
};

// Continues each line as soon as it is read, for a program at the other end of a pipe.
void answer_standard_input(const Args& args, Generation& generation) {
    generation.load();
    u64 number = 0;
    for_each_line("-", [&](const RequestLine& line) {
        Prompt prompt = parse_prompt(args, line, number++);
        generation.encode(prompt);
        generation.print(prompt);
    });
}

std::vector<Prompt> prompts_of(const Args& args) {
    std::vector<Prompt> prompts;
    if (args.prompts) {
        for_each_line(*args.prompts, [&](const RequestLine& line) {
            prompts.push_back(parse_prompt(args, line, prompts.size()));
        });
        return prompts;
    }
    prompts.push_back(base_prompt(args));
    prompts.back().request.object = prompt_option;
    prompts.back().text = *args.prompt == "-" ? io::read_input("/dev/stdin") : *args.prompt;
    return prompts;
}

int run(const Args& args) {
    const eval::Sampling sampling = sampling_of(args);
    if (args.prompt.has_value() == args.prompts.has_value()) {
        usage_error(prompt_option, "{}: give the text to continue, or a file with --prompts",
                    args.prompt ? "cannot be combined with --prompts" : "is missing");
    }
    Generation generation(args, sampling);
    if (args.prompts == "-") {
        answer_standard_input(args, generation);
    } else {
        // All prompts are checked before the weights are loaded.
        std::vector<Prompt> prompts = prompts_of(args);
        for (Prompt& prompt : prompts) generation.encode(prompt);
        generation.load();
        for (const Prompt& prompt : prompts) generation.print(prompt);
    }
    generation.log_speed();
    return 0;
}

}  // namespace

void add_generate(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb =
        options.verb("generate", "continue prompts with the weights of a checkpoint, on the CPU",
                     [args] { return run(*args); });
    verb.not_called({"sample"});
    verb.examples(
        {"lm-ckpt generate checkpoints --prompt 'The first' --max-new-tokens 50",
         "lm-ckpt generate gpt2-hf --prompt 'The first' --temperature 0.8 --top-p 0.95",
         "echo '{\"prompt\": \"The first\"}' | lm-ckpt generate checkpoints --prompts -"});
    verb.positional("CKPT", &args->path,
                    "global_step* directory, directory of steps (its latest step is read), "
                    "Megatron checkpoint, or Hugging Face model");
    verb.group("Text");
    verb.value("--prompt", &args->prompt, "TEXT",
               "text to continue; -: all of standard input; empty: begin a document");
    verb.value("--prompts", &args->prompts, "FILE",
               "JSON Lines with a \"prompt\" (a text or a list of ids) and, optionally, "
               "\"max_new_tokens\" and \"stop\"; -: standard input; the output is JSON Lines");
    verb.value("--max-new-tokens", &args->max_new_tokens, "N", "largest number of tokens to add");
    verb.values_added("--stop", &args->stops, "TEXT",
                      "end before this text; may be given several times");
    verb.flag("--ignore-eod", &args->ignore_end, "continue after an end of document");
    verb.flag("--cut-prompts", &args->cut_prompts,
              "remove the first tokens of a prompt that leaves no room for N new tokens");
    verb.group("Sampling");
    verb.value("--temperature", &args->temperature, "T",
               "sample at this temperature; 0: the most probable token; default: 0, or 1 with "
               "--top-k or --top-p");
    verb.value("--top-k", &args->top_k, "K", "sample from the K most probable tokens; 0: all");
    verb.value("--top-p", &args->top_p, "P",
               "sample from the fewest tokens whose probabilities sum to at least P");
    verb.value("--seed", &args->seed, "N",
               "seed of sampling; the same seed gives the same text for any number of threads");
    add_engine_options(verb, args->engine);
    verb.group("Output");
    verb.flag("--json", &args->json, "print one JSON object for each prompt");
    verb.flag("--quiet,-q", &args->quiet, "do not log the speed");
}

}  // namespace lm::ckpt_tool
