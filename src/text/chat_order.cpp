// Sorting of tool results; see chat_order.h.
//
// One pass over the messages with an index of the latest assistant message's calls, so that a history of thousands of
// turns stays linear. The index refers to the request's messages, which outlive it.
#include "text/chat_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace perigee {
namespace {

/// Finds calls by id; built once per assistant message so that long agent histories stay linear.
class CallIndex {
 public:
  CallIndex() = default;
  explicit CallIndex(const std::vector<ToolCall>& calls) : calls_(&calls) {
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!calls[i].id.empty()) positions_.emplace(calls[i].id, i);
    }
    for (size_t i = 0; i < calls.size(); ++i) positions_.emplace(fmt::format("{}:{}", calls[i].name, i), i);
  }

  std::optional<size_t> find(const std::string& id) const {
    const auto hit = positions_.find(id);
    if (hit == positions_.end()) return std::nullopt;
    return hit->second;
  }
  /// The name of the call at `position`; nothing beyond the last.
  std::string name(size_t position) const {
    return calls_ != nullptr && position < calls_->size() ? (*calls_)[position].name : std::string();
  }

 private:
  const std::vector<ToolCall>* calls_ = nullptr;
  std::unordered_map<std::string, size_t> positions_;
};

/// The messages of one run, in the order of their calls, or nothing when one of them answers no known call.
std::optional<std::vector<OrderedMessage>> match_run(const std::vector<ChatMessage>& messages, size_t begin, size_t end,
                                                     const CallIndex& calls) {
  std::vector<std::pair<size_t, size_t>> run;  // position of the call, index of the message
  for (size_t i = begin; i < end; ++i) {
    const auto position = calls.find(messages[i].tool_call_id);
    if (!position) return std::nullopt;
    run.emplace_back(*position, i);
  }
  std::sort(run.begin(), run.end());
  std::vector<OrderedMessage> ordered;
  for (const auto& [position, index] : run) ordered.push_back({static_cast<int>(index), calls.name(position), 0});
  return ordered;
}

}  // namespace

Result<std::vector<OrderedMessage>> order_messages(const std::vector<ChatMessage>& messages) {
  std::vector<OrderedMessage> ordered;
  CallIndex calls;
  int tool_index = 0;
  for (size_t i = 0; i < messages.size();) {
    if (messages[i].role != "tool") {
      if (messages[i].role == "assistant") {
        calls = CallIndex(messages[i].tool_calls);
        tool_index = 0;
      }
      ordered.push_back({static_cast<int>(i++), {}, 0});
      continue;
    }
    size_t end = i;
    while (end < messages.size() && messages[end].role == "tool") ++end;
    auto run = match_run(messages, i, end, calls);
    if (!run) {
      run.emplace();
      for (size_t k = i; k < end; ++k) run->push_back({static_cast<int>(k), messages[k].name, 0});
    }
    for (auto& message : *run) {
      message.tool_index = ++tool_index;
      if (message.tool.empty()) message.tool = calls.name(static_cast<size_t>(tool_index - 1));
      if (message.tool.empty()) {
        return Error{fmt::format(
            "messages[{}] is a tool result, but neither its name nor its tool_call_id says which call it answers.",
            message.index)};
      }
      ordered.push_back(std::move(message));
    }
    i = end;
  }
  return ordered;
}

}  // namespace perigee
