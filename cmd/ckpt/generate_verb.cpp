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
        usage_error("--temperature",
                    "0 is greedy and contradicts --top-k and --top-p: remove them");
    }
    return sampling;
}

// A prompt as a text or as ids.
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

// Parses {"prompt": TEXT or [ids], "max_new_tokens": N, "stop": [TEXT, ...]}.
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
    request.stops =
        io::json_get_or<std::vector<std::string>>(object, "stop", request.stops, line.where);
    return prompt;
}

std::vector<Prompt> prompts_of(const Args& args) {
    if (args.prompt.has_value() == args.prompts.has_value()) {
        usage_error(prompt_option, "{}: give the text to continue, or a file with --prompts",
                    args.prompt ? "contradicts --prompts" : "is missing");
    }
    std::vector<Prompt> prompts;
    if (args.prompts) {
        u64 number = 0;
        for (const RequestLine& line : read_lines(*args.prompts)) {
            prompts.push_back(parse_prompt(args, line, number++));
        }
        return prompts;
    }
    prompts.push_back(base_prompt(args));
    prompts.back().request.object = prompt_option;
    prompts.back().text = *args.prompt == "-" ? io::read_file("/dev/stdin") : *args.prompt;
    return prompts;
}

// Removes the first tokens of a prompt that leaves no room for the new ones.
void cut(eval::GenerateRequest& request, i64 context) {
    const i64 room = std::max<i64>(1, context - request.max_new_tokens);
    const i64 beyond = std::max<i64>(0, std::ssize(request.prompt) - room);
    request.prompt.erase(request.prompt.begin(), request.prompt.begin() + beyond);
}

// Converts the texts to ids, before the weights are loaded.
void encode(std::vector<Prompt>& prompts, const eval::OpenedModel& model, const Args& args,
            eval::ModelTokenizer& tokenizer) {
    const bool texts =
        std::ranges::any_of(prompts, [](const Prompt& p) { return p.text.has_value(); });
    tokenizer = texts ? eval::require_tokenizer(model, args.engine.tokenizer)
                      : eval::find_tokenizer(model, args.engine.tokenizer);
    for (Prompt& prompt : prompts) {
        eval::GenerateRequest& request = prompt.request;
        if (prompt.text) {
            if (const i64 bad = find_invalid_utf8(*prompt.text); bad >= 0) {
                usage_error(request.object, "is not valid UTF-8 at byte {}", bad + 1);
            }
            request.prompt = tokenizer.tokenizer->encode(*prompt.text);
        }
        if (args.cut_prompts) cut(request, model.tensors->model().max_positions);
        if (!request.stops.empty() && !tokenizer.tokenizer) {
            usage_error("--stop", "needs a tokenizer: give --tokenizer-model FILE");
        }
        eval::check_prompt(request, model.tensors->model(), tokenizer);
    }
}

void print_json(const Prompt& prompt, const eval::Generated& result, bool texts) {
    io::OrderedJson object;
    if (prompt.text) object["prompt"] = *prompt.text;
    if (texts) object["text"] = result.text;
    object["prompt_tokens"] = prompt.request.prompt.size();
    object["ids"] = result.ids;
    object["finish"] = name_of(result.finish);
    cli::write_stdout(io::json_line(object));
    cli::flush_stdout();
}

void print_part(std::string_view text) {
    cli::write_stdout(text);
    cli::flush_stdout();
}

int run(const Args& args) {
    const eval::Sampling sampling = sampling_of(args);
    std::vector<Prompt> prompts = prompts_of(args);
    const eval::OpenedModel model = eval::open_model(args.path);
    eval::ModelTokenizer tokenizer;
    encode(prompts, model, args, tokenizer);
    const auto engine = load_engine(*model.tensors, args.engine);
    const bool json = args.json || args.prompts;
    if (!json && !tokenizer.tokenizer) usage_error(prompt_option, "needs a tokenizer");
    i64 n_prompt = 0;
    i64 n_new = 0;
    double prompt_s = 0;
    double tokens_s = 0;
    for (const Prompt& prompt : prompts) {
        const eval::Generated result =
            generate(*engine, tokenizer, prompt.request, sampling,
                     json ? eval::TextSink{} : eval::TextSink{print_part});
        if (json)
            print_json(prompt, result, tokenizer.tokenizer != nullptr);
        else
            print_part("\n");
        n_prompt += std::max<i64>(1, std::ssize(prompt.request.prompt));
        n_new += std::ssize(result.ids);
        prompt_s += result.prompt_s;
        tokens_s += result.tokens_s;
        if (result.finish == eval::Finish::context) {
            note("{}: the text ends at the model's context, {} tokens", prompt.request.object,
                 engine->context());
        }
    }
    if (args.quiet) return 0;
    const double rate = static_cast<double>(n_new - std::ssize(prompts)) / std::max(tokens_s, 1e-9);
    note("{}: {} prompt tokens in {}, {} new tokens{}", model.tensors->path(), n_prompt,
         human_duration(prompt_s), n_new, rate > 0 ? fmt::format(", {:.1f} a second", rate) : "");
    return 0;
}

}  // namespace

void add_generate(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb =
        options.verb("generate", "continue prompts with the weights of a checkpoint, on the CPU",
                     [args] { return run(*args); });
    verb.examples(
        {"lm-ckpt generate checkpoints --prompt 'The first' --max-new-tokens 50",
         "lm-ckpt generate gpt2-hf --prompt 'The first' --temperature 0.8 --top-p 0.95",
         "echo '{\"prompt\": \"The first\"}' | lm-ckpt generate checkpoints --prompts -"});
    verb.positional("CKPT", &args->path,
                    "global_step* directory, or a directory of them: its latest step; or one of "
                    "Megatron; or a model of Hugging Face");
    verb.group("Text");
    verb.value("--prompt", &args->prompt, "TEXT",
               "text to continue; -: all of standard input; empty: begin a document");
    verb.value("--prompts", &args->prompts, "FILE",
               "JSON Lines with a \"prompt\" (a text or a list of ids) and, optionally, "
               "\"max_new_tokens\" and \"stop\"; -: standard input; prints JSON Lines");
    verb.value("--max-new-tokens", &args->max_new_tokens, "N", "largest number of tokens to add");
    verb.values_added("--stop", &args->stops, "TEXT",
                      "end before this text; may be given several times");
    verb.flag("--ignore-eod", &args->ignore_end, "continue after an end of document");
    verb.flag("--cut-prompts", &args->cut_prompts,
              "remove the first tokens of a prompt that leaves no room for N new ones");
    verb.group("Sampling");
    verb.value("--temperature", &args->temperature, "T",
               "sample from the probabilities at this temperature; 0, the default: take the most "
               "probable token; with --top-k or --top-p the default is 1");
    verb.value("--top-k", &args->top_k, "K", "sample from the K most probable tokens; 0: all");
    verb.value("--top-p", &args->top_p, "P",
               "sample from the fewest tokens whose probabilities sum to P");
    verb.value("--seed", &args->seed, "N",
               "seed of sampling; the same seed gives the same text for any number of threads");
    add_engine_options(verb, args->engine);
    verb.group("Output");
    verb.flag("--json", &args->json, "print one JSON object for each prompt");
    verb.flag("--quiet,-q", &args->quiet, "do not log the speed");
}

}  // namespace lm::ckpt_tool
