// `perigee run`: one prompt from the command line, or a chat in the terminal; no server.

#include <unistd.h>
#include <CLI/CLI.hpp>
#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <stdexcept>

#include "apps/commands.h"
#include "apps/model_setup.h"
#include "base/json.h"
#include "base/log.h"
#include "text/chat_encoder.h"
#include "text/chat_parser.h"

namespace perigee {
namespace {

struct RunCommand {
  ModelOptions model;
  std::string prompt;
  std::string system;
  double temperature = 1;
  double top_p = 0.95;
  int64_t max_tokens = 0;
  int64_t seed = -1;
  bool no_thinking = false;
  bool as_json = false;
};

/// Hands tokens from the engine thread to the terminal's.
class TerminalSink final : public Sink {
 public:
  void on_tokens(std::span<const TokenOutput> tokens) override {
    const std::lock_guard lock(mutex_);
    for (const TokenOutput& token : tokens) ids_.push_back(token.id);
    wake_.notify_one();
  }
  void on_finish(const Finish& finish) override {
    const std::lock_guard lock(mutex_);
    finish_ = finish;
    wake_.notify_one();
  }
  /// Waits for tokens or the end; false at the end once all tokens were taken.
  bool take(std::vector<int32_t>& ids) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return !ids_.empty() || finish_; });
    ids = std::exchange(ids_, {});
    return !ids.empty() || !finish_;
  }
  const Finish& finish() const { return *finish_; }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<int32_t> ids_;
  std::optional<Finish> finish_;
};

class Conversation {
 public:
  Conversation(const RunCommand& command, LoadedModel loaded) : command_(command), loaded_(std::move(loaded)) {
    auto encoder = ChatEncoder::create(*loaded_.tokenizer);
    if (!encoder) throw std::runtime_error(encoder.error().message);
    encoder_.emplace(std::move(*encoder));
    input_.thinking = !command.no_thinking;
    if (!command.system.empty()) add("system", command.system);
  }

  /// Asks and streams the answer; it stays in the conversation.
  void ask(const std::string& text) {
    add("user", text);
    const auto prompt = encoder_->encode(input_);
    if (!prompt) throw std::runtime_error(prompt.error().message);
    Request request = make_request(prompt->ids);
    ChatParser parser(*loaded_.tokenizer, {.starts_in_think = prompt->starts_in_think});
    const auto sink = std::make_shared<TerminalSink>();
    const TimePoint start = SteadyClock().now();
    const auto submitted = loaded_.engine->submit(std::move(request), sink);
    if (!submitted) throw std::runtime_error(submitted.error().message);
    double first = 0;
    std::vector<int32_t> ids;
    while (sink->take(ids)) {
      if (first == 0) first = seconds(SteadyClock().now() - start);
      for (const int32_t id : ids) show(parser.push(id));
    }
    show(parser.finish());
    report(sink->finish(), first, seconds(SteadyClock().now() - start));
  }

 private:
  void add(const std::string& role, const std::string& text) {
    ChatMessage message;
    message.role = role;
    message.content.push_back({text, {}});
    input_.messages.push_back(std::move(message));
  }

  Request make_request(const std::vector<int32_t>& ids) {
    Request request;
    request.id = fmt::format("run-{}", turn_++);
    request.prompt = ids;
    request.sampling.temperature = static_cast<float>(command_.temperature);
    request.sampling.top_p = static_cast<float>(command_.top_p);
    if (command_.seed >= 0) request.sampling.seed = static_cast<uint64_t>(command_.seed);
    request.sampling.stop_ids = loaded_.config.eos_ids;
    const int64_t room = loaded_.limits.context_length - static_cast<int64_t>(ids.size());
    if (room < 1)
      throw std::runtime_error(fmt::format("the conversation has {} tokens, the context length is {}", ids.size(),
                                           loaded_.limits.context_length));
    request.sampling.max_new_tokens = command_.max_tokens > 0 ? std::min(command_.max_tokens, room) : room;
    return request;
  }

  void show(const ChatDelta& delta) {
    reasoning_ += delta.reasoning;
    content_ += delta.content;
    if (command_.as_json) return;
    const bool color = ::isatty(1) == 1;
    if (!delta.reasoning.empty()) fmt::print("{}{}{}", color ? "\033[2m" : "", delta.reasoning, color ? "\033[0m" : "");
    if (!delta.content.empty() && content_.size() == delta.content.size() && !reasoning_.empty()) fmt::print("\n\n");
    fmt::print("{}", delta.content);
    std::fflush(stdout);
  }

  void report(const Finish& finish, double first, double total) {
    if (finish.reason == FinishReason::error) throw std::runtime_error(finish.message);
    const double rate = finish.completion_tokens > 1
                            ? static_cast<double>(finish.completion_tokens - 1) / std::max(total - first, 1e-9)
                            : 0;
    if (command_.as_json) {
      fmt::print("{}\n",
                 json_dump(json::object{{"reasoning", reasoning_},
                                        {"content", content_},
                                        {"finish_reason", finish.reason == FinishReason::length ? "length" : "stop"},
                                        {"prompt_tokens", finish.prompt_tokens},
                                        {"completion_tokens", finish.completion_tokens},
                                        {"time_to_first_token_seconds", first},
                                        {"tokens_per_second", rate}}));
    } else {
      fmt::print("\n");
      fmt::print(stderr, "[{} prompt tokens, {} new; first after {:.0f} ms, then {:.1f} tokens/s]\n",
                 finish.prompt_tokens, finish.completion_tokens, first * 1e3, rate);
    }
    ChatMessage message;
    message.role = "assistant";
    message.reasoning = std::exchange(reasoning_, {});
    message.content.push_back({std::exchange(content_, {}), {}});
    input_.messages.push_back(std::move(message));
  }

  const RunCommand& command_;
  LoadedModel loaded_;
  std::optional<ChatEncoder> encoder_;
  ChatInput input_;
  std::string reasoning_;
  std::string content_;
  int turn_ = 0;
};

void run(const RunCommand& command) {
  set_log_level(LogLevel::warning);
  Conversation conversation(command, set_up_model(command.model));
  if (!command.prompt.empty()) return conversation.ask(command.prompt);
  if (::isatty(0) == 1) fmt::print(stderr, "Ask something; an empty line or Ctrl-D ends.\n");
  for (std::string line;;) {
    if (::isatty(0) == 1) fmt::print(stderr, "> ");
    if (!std::getline(std::cin, line) || line.empty()) return;
    conversation.ask(line);
  }
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto command = std::make_shared<RunCommand>();
  command->model.max_running_requests = 1;
  CLI::App* sub = app.add_subcommand("run", "one prompt, or a chat in the terminal");
  add_model_options(*sub, command->model);
  sub->add_option("prompt", command->prompt, "without it: a chat, one line per turn");
  sub->add_option("--system", command->system, "system message");
  sub->add_option("--temperature", command->temperature)->capture_default_str()->check(CLI::Range(0.0, 2.0));
  sub->add_option("--top-p", command->top_p)->capture_default_str()->check(CLI::Range(0.01, 1.0));
  sub->add_option("--max-tokens", command->max_tokens, "default: the room left in the context")
      ->check(CLI::PositiveNumber);
  sub->add_option("--seed", command->seed, "fixes the text")->check(CLI::NonNegativeNumber);
  sub->add_flag("--no-thinking", command->no_thinking, "answer at once");
  sub->add_flag("--json", command->as_json, "one JSON object per answer instead of streaming");
  sub->callback([command] { run(*command); });
}

}  // namespace perigee
