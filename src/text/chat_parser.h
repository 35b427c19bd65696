// Takes a K3 answer apart while it is generated: reasoning, content, and tool calls with streaming arguments.
//
// One ChatParser per stream, used by one thread at a time (the API layer's). It reads token ids: structure comes from
// the marker ids alone, so text that merely spells a marker stays text, but for a think opener spelled at the very
// start, which the model is known to write. The joined deltas do not depend on how the input was cut. Nothing fails:
// whatever the model wrote, the parser makes the best of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace perigee {

/// A piece of a tool call. Calls come one after another, numbered from 0.
struct ToolCallDelta {
  int index = 0;
  std::string id;             ///< only in a call's first delta: "{name}:{k}", k counting through the conversation
  std::string name;           ///< only in a call's first delta, never empty there
  std::string arguments;      ///< next piece of the arguments' JSON text, in Python's json.dumps form
  bool complete = false;      ///< in a call's last delta: the arguments are whole
  bool repeated_key = false;  ///< with complete: a key came twice; a reader of the JSON must let the last one win
};

/// What one push() made visible; often nothing. To be shown in this order: reasoning, content, tool calls.
struct ChatDelta {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> tool_calls;

  bool empty() const { return reasoning.empty() && content.empty() && tool_calls.empty(); }
};

enum class ReasoningOutput {
  separate,  ///< reasoning apart from content
  merged,    ///< reasoning in front of the content, in `content`, without markers
  raw,       ///< no reasoning parser: think, response and message tags stay in `content` as text
};

enum class ToolOutput {
  parsed,  ///< tool calls
  cut,     ///< no calls allowed (tool_choice none, or no tools): a tools section is dropped
  raw,     ///< no tool parser: the section stays in `content` as text
};

struct ChatParserOptions {
  bool starts_in_think = true;  ///< EncodedChat::starts_in_think
  ReasoningOutput reasoning = ReasoningOutput::separate;
  ToolOutput tools = ToolOutput::parsed;
  bool buffer_reasoning = false;     ///< hand reasoning out in one piece, when its channel closes
  bool keep_special_tokens = false;  ///< show special tokens such as <|end_of_msg|> by name instead of dropping them
  int earlier_tool_calls = 0;        ///< EncodedChat::earlier_tool_calls
};

/// The parser of one stream; movable, not copyable.
class ChatParser {
 public:
  /// `tokenizer` must outlive the parser and have the four XTML markers (as ChatEncoder::create checks).
  ChatParser(const Tokenizer& tokenizer, const ChatParserOptions& options);
  ~ChatParser();
  ChatParser(ChatParser&&) noexcept;
  ChatParser& operator=(ChatParser&&) noexcept;

  /// The next generated token, the stop token included or not.
  ChatDelta push(int32_t token);

  /// Text in place of tokens, in which spelled markers count as markers: for text without ids.
  ChatDelta push_text(std::string_view text);

  /// The end of generation: releases what was held back, drops a marker that was cut off. Call once, last.
  ChatDelta finish();

  /// Generated tokens that belong to reasoning, the tag that ended it included. Tokens only, not push_text.
  int64_t reasoning_tokens() const;
  /// Whether generation is inside a think channel now.
  bool in_reasoning() const;
  /// Tool calls that are complete so far: > 0 makes a normal stop's finish_reason "tool_calls".
  int complete_tool_calls() const;
  /// A tools section was closed: nothing more is expected, and the caller may end the generation.
  bool tools_closed() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// A complete call of a collected answer.
struct ParsedToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< JSON text of an object, unless the model wrote its arguments as broken raw JSON
};

/// A whole answer, as a request without streaming returns it.
struct ParsedChat {
  std::string reasoning;
  std::string content;
  std::vector<ParsedToolCall> tool_calls;
};

/// Sums deltas up. Calls that never completed are dropped; repeated keys are resolved (the last one wins).
class ChatCollector {
 public:
  void add(const ChatDelta& delta);
  /// The answer so far.
  ParsedChat result() const;

 private:
  struct Call {
    ParsedToolCall call;
    bool complete = false;
  };
  std::string reasoning_;
  std::string content_;
  std::vector<Call> calls_;
};

}  // namespace perigee
