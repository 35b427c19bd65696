// The channels of an answer; see chat_parser.h.
//
// Tokens become text and markers here, tags in TagReader, calls in ToolSection.
#include "text/chat_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/detokenizer.h"
#include "text/json_text.h"
#include "text/tag_reader.h"
#include "text/tool_section.h"
#include "text/xtml.h"

namespace perigee {
namespace {

constexpr std::string_view kSpelledThink = "<|open|>think<|sep|>";

constexpr std::array<std::pair<std::string_view, Marker>, 4> kMarkers{{{xtml::kOpen, Marker::open},
                                                                       {xtml::kClose, Marker::close},
                                                                       {xtml::kSep, Marker::sep},
                                                                       {xtml::kEndOfMessage, Marker::end_of_message}}};

xtml::MarkerIds markers_of(const Tokenizer& tokenizer) {
  const auto ids = xtml::find_markers(tokenizer);
  PERIGEE_CHECK(ids.ok(), "a ChatParser needs a tokenizer with the XTML markers");
  return *ids;
}

bool opens(const XtmlEvent& event, TagName tag) {
  return event.kind == XtmlEvent::Kind::open && event.tag == tag;
}
bool closes(const XtmlEvent& event, TagName tag) {
  return event.kind == XtmlEvent::Kind::close && event.tag == tag;
}

/// Does the event begin a tools section? A call without its section does, too.
bool opens_tools(const XtmlEvent& event) {
  return opens(event, TagName::tools) || opens(event, TagName::call);
}

bool is_tool_tag(const XtmlEvent& event) {
  return event.tag == TagName::tools || event.tag == TagName::call || event.tag == TagName::argument ||
         event.tag == TagName::json;
}

}  // namespace

class ChatParser::State {
 public:
  State(const Tokenizer& tokenizer, const ChatParserOptions& options)
      : options_(options),
        tokenizer_(&tokenizer),
        markers_(markers_of(tokenizer)),
        detokenizer_(tokenizer),
        section_(options.earlier_tool_calls) {
    if (options.starts_in_think && options.reasoning != ReasoningOutput::raw) channel_ = Channel::think;
  }

  ChatDelta push(int32_t token);
  ChatDelta push_text(std::string_view text);
  ChatDelta finish();

  int64_t reasoning_tokens() const { return reasoning_tokens_; }
  bool in_reasoning() const { return channel_ == Channel::think; }
  int complete_tool_calls() const { return options_.tools == ToolOutput::parsed ? section_.complete_calls() : 0; }
  bool tools_closed() const { return tools_closed_; }

 private:
  enum class Channel {
    think,
    response,
    tools,
    after_tools,  ///< behind a closed section: bare text is ignored
  };

  /// No parsing is wanted at all: not even a cut-off marker is hidden.
  bool all_raw() const { return options_.reasoning == ReasoningOutput::raw && options_.tools == ToolOutput::raw; }
  std::optional<Marker> marker_of(int32_t token) const;
  void ordinary_text(std::string_view text);
  void settle_opening(bool ended = false);
  void read_marker(Marker marker);
  void spelled_text(std::string_view text);
  ChatDelta take_delta();

  void handle(const XtmlEvent& event);
  void handle_think(const XtmlEvent& event);
  void handle_response(const XtmlEvent& event);
  void handle_tools(const XtmlEvent& event);
  void handle_after_tools(const XtmlEvent& event);
  void enter_tools(const XtmlEvent& event);
  void enter_think(Channel next);
  void leave_think(Channel next);
  void end_message(const XtmlEvent& event);
  bool feed_section(const XtmlEvent& event);

  ChatParserOptions options_;
  const Tokenizer* tokenizer_;
  xtml::MarkerIds markers_;
  Detokenizer detokenizer_;
  TagReader reader_;
  ToolSection section_;

  std::vector<XtmlEvent> events_;
  ChatDelta delta_;
  std::vector<ToolCallDelta> unseen_;  // where the calls of a section that is cut go
  std::string reasoning_;              // held for buffer_reasoning

  bool at_start_ = true;   // nothing has been decided yet about a spelled think opener
  std::string opening_;    // text at the start that may become one
  std::string text_held_;  // push_text: may become a marker
  Channel channel_ = Channel::response;
  Channel after_think_ = Channel::response;
  int64_t reasoning_tokens_ = 0;
  bool tools_closed_ = false;
};

// ---- input: tokens and text to events ----

std::optional<Marker> ChatParser::State::marker_of(int32_t token) const {
  if (token == markers_.open) return Marker::open;
  if (token == markers_.close) return Marker::close;
  if (token == markers_.sep) return Marker::sep;
  if (token == markers_.end_of_message) return Marker::end_of_message;
  return std::nullopt;
}

ChatDelta ChatParser::State::push(int32_t token) {
  if (in_reasoning()) ++reasoning_tokens_;
  if (const auto marker = marker_of(token)) {
    ordinary_text(detokenizer_.flush());
    read_marker(*marker);
  } else if (options_.keep_special_tokens || !tokenizer_->is_skipped(token)) {
    ordinary_text(detokenizer_.push(token));
  }
  return take_delta();
}

ChatDelta ChatParser::State::push_text(std::string_view text) {
  spelled_text(detokenizer_.push_bytes(text));
  return take_delta();
}

ChatDelta ChatParser::State::finish() {
  ordinary_text(std::exchange(text_held_, {}) + detokenizer_.flush());
  settle_opening(true);
  reader_.finish(all_raw(), events_);
  ChatDelta delta = take_delta();
  section_.drop_call();
  delta.reasoning += std::exchange(reasoning_, {});
  return delta;
}

/// Text between markers. At the start it is held while it may still spell a think opener, which is then taken as a tag.
void ChatParser::State::ordinary_text(std::string_view text) {
  if (text.empty()) return;
  if (!at_start_) {
    reader_.text(text, events_);
    return;
  }
  opening_ += text;
  if (opening_.starts_with(kSpelledThink)) {
    at_start_ = false;
    events_.push_back({XtmlEvent::Kind::open, TagName::think, std::string(kSpelledThink)});
    reader_.text(std::exchange(opening_, {}).substr(kSpelledThink.size()), events_);
  } else if (!kSpelledThink.starts_with(opening_)) {
    settle_opening();
  }
}

/// No spelled opener will come: what was held is text, unless the generation ended in the middle of a spelled tag.
void ChatParser::State::settle_opening(bool ended) {
  at_start_ = false;
  const std::string held = std::exchange(opening_, {});
  const bool cut = ended && !all_raw() && held.starts_with(xtml::kOpen);
  if (!cut) reader_.text(held, events_);
}

void ChatParser::State::read_marker(Marker marker) {
  settle_opening();
  if (marker == Marker::end_of_message) reader_.finish(all_raw(), events_);
  reader_.marker(marker, events_);
}

/// Text in which spelled markers count. Held back: an end that may become a marker.
void ChatParser::State::spelled_text(std::string_view text) {
  const std::string all = std::exchange(text_held_, {}) + std::string(text);
  std::string_view rest = all;
  size_t plain = 0;  // bytes of `rest` known to be no marker
  for (size_t i = rest.find('<'); i != std::string_view::npos; i = rest.find('<', plain)) {
    const auto tail = rest.substr(i);
    const auto hit = std::find_if(kMarkers.begin(), kMarkers.end(),
                                  [&](const auto& entry) { return tail.starts_with(entry.first); });
    if (hit != kMarkers.end()) {
      ordinary_text(rest.substr(0, i));
      read_marker(hit->second);
      rest = tail.substr(hit->first.size());
      plain = 0;
      continue;
    }
    if (std::any_of(kMarkers.begin(), kMarkers.end(),
                    [&](const auto& entry) { return entry.first.starts_with(tail); })) {
      text_held_ = tail;
      rest = rest.substr(0, i);
      break;
    }
    plain = i + 1;
  }
  ordinary_text(rest);
}

ChatDelta ChatParser::State::take_delta() {
  for (const auto& event : std::exchange(events_, {})) handle(event);
  unseen_.clear();
  return std::exchange(delta_, {});
}

// ---- channels: events to the delta ----

void ChatParser::State::handle(const XtmlEvent& event) {
  if (options_.reasoning == ReasoningOutput::raw && channel_ != Channel::tools && channel_ != Channel::after_tools &&
      event.kind != XtmlEvent::Kind::end_of_message && !is_tool_tag(event)) {
    delta_.content += event.text;
    return;
  }
  switch (channel_) {
    case Channel::think:
      handle_think(event);
      break;
    case Channel::response:
      handle_response(event);
      break;
    case Channel::tools:
      handle_tools(event);
      break;
    case Channel::after_tools:
      handle_after_tools(event);
      break;
  }
}

/// Think ends at its closing tag, or at any tag that can only stand behind it.
void ChatParser::State::handle_think(const XtmlEvent& event) {
  if (event.kind == XtmlEvent::Kind::text) {
    std::string& out = options_.reasoning == ReasoningOutput::merged ? delta_.content
                       : options_.buffer_reasoning                   ? reasoning_
                                                                     : delta_.reasoning;
    out += event.text;
  } else if (event.kind == XtmlEvent::Kind::end_of_message) {
    end_message(event);
  } else if (closes(event, TagName::think)) {
    leave_think(after_think_);
  } else if (opens(event, TagName::response) || closes(event, TagName::message)) {
    leave_think(Channel::response);
  } else if (opens_tools(event)) {
    leave_think(Channel::response);
    handle_response(event);
  }
}

void ChatParser::State::handle_response(const XtmlEvent& event) {
  if (event.kind == XtmlEvent::Kind::text) {
    delta_.content += event.text;
  } else if (event.kind == XtmlEvent::Kind::end_of_message) {
    end_message(event);
  } else if (options_.tools == ToolOutput::raw && is_tool_tag(event)) {
    delta_.content += event.text;
  } else if (opens_tools(event)) {
    enter_tools(event);
  } else if (opens(event, TagName::think)) {
    enter_think(Channel::response);
  }
}

/// Inside the section; what it does not take ends it, or interrupts it for a think block.
void ChatParser::State::handle_tools(const XtmlEvent& event) {
  if (feed_section(event)) return;
  auto& out = options_.tools == ToolOutput::parsed ? delta_.tool_calls : unseen_;
  if (event.kind == XtmlEvent::Kind::end_of_message) {
    end_message(event);
  } else if (opens(event, TagName::think)) {
    enter_think(Channel::tools);
  } else if (opens(event, TagName::response)) {
    section_.end_call(out);
    channel_ = Channel::response;
  } else if (closes(event, TagName::tools) || event.tag == TagName::message) {
    section_.end_call(out);
    tools_closed_ = true;
    channel_ = Channel::after_tools;
  }
}

void ChatParser::State::handle_after_tools(const XtmlEvent& event) {
  if (event.kind == XtmlEvent::Kind::end_of_message) {
    end_message(event);
  } else if (opens_tools(event)) {
    enter_tools(event);
  } else if (opens(event, TagName::think)) {
    enter_think(Channel::after_tools);
  } else if (opens(event, TagName::response)) {
    channel_ = Channel::response;
  }
}

void ChatParser::State::enter_tools(const XtmlEvent& event) {
  channel_ = Channel::tools;
  feed_section(event);
}

bool ChatParser::State::feed_section(const XtmlEvent& event) {
  return section_.handle(event, options_.tools == ToolOutput::parsed ? delta_.tool_calls : unseen_);
}

void ChatParser::State::enter_think(Channel next) {
  if (options_.reasoning == ReasoningOutput::raw) return;
  channel_ = Channel::think;
  after_think_ = next;
}

void ChatParser::State::leave_think(Channel next) {
  channel_ = next;
  after_think_ = Channel::response;
  delta_.reasoning += std::exchange(reasoning_, {});
}

/// The message is over. A generation that goes on (ignore_eos) stays visible as content.
void ChatParser::State::end_message(const XtmlEvent& event) {
  section_.drop_call();
  leave_think(Channel::response);
  if (options_.keep_special_tokens) delta_.content += event.text;
}

// ---- the public face ----

ChatParser::ChatParser(const Tokenizer& tokenizer, const ChatParserOptions& options)
    : state_(std::make_unique<State>(tokenizer, options)) {}
ChatParser::~ChatParser() = default;
ChatParser::ChatParser(ChatParser&&) noexcept = default;
ChatParser& ChatParser::operator=(ChatParser&&) noexcept = default;

ChatDelta ChatParser::push(int32_t token) {
  return state_->push(token);
}
ChatDelta ChatParser::push_text(std::string_view text) {
  return state_->push_text(text);
}
ChatDelta ChatParser::finish() {
  return state_->finish();
}
int64_t ChatParser::reasoning_tokens() const {
  return state_->reasoning_tokens();
}
bool ChatParser::in_reasoning() const {
  return state_->in_reasoning();
}
int ChatParser::complete_tool_calls() const {
  return state_->complete_tool_calls();
}
bool ChatParser::tools_closed() const {
  return state_->tools_closed();
}

void ChatCollector::add(const ChatDelta& delta) {
  reasoning_ += delta.reasoning;
  content_ += delta.content;
  for (const auto& piece : delta.tool_calls) {
    const auto index = static_cast<size_t>(piece.index);
    if (index >= calls_.size()) calls_.resize(index + 1);
    auto& [call, complete] = calls_[index];
    call.id += piece.id;
    call.name += piece.name;
    call.arguments += piece.arguments;
    complete = complete || piece.complete;
    if (!piece.repeated_key) continue;
    if (const auto document = read_json_text(call.arguments)) call.arguments = document->value.text;
  }
}

ParsedChat ChatCollector::result() const {
  ParsedChat chat{reasoning_, content_, {}};
  for (const auto& [call, complete] : calls_) {
    if (complete) chat.tool_calls.push_back(call);
  }
  return chat;
}

}  // namespace perigee
