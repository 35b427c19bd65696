// Reads the inside of a tools section, <|open|>call ...<|close|>call<|sep|>, into streaming tool-call deltas.
//
// Owned by one ChatParser, used by its thread. Arguments come out as the text of a JSON object in Python's json.dumps
// form: strings as they arrive, other values when their element closes. Malformed sections never fail; they yield fewer
// calls.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "text/chat_parser.h"
#include "text/tag_reader.h"

namespace perigee {

class ToolSection {
 public:
  /// `earlier_calls` numbers the first call's id.
  explicit ToolSection(int earlier_calls) : earlier_calls_(earlier_calls) {}

  /// Takes an event if it belongs to the section. False: the event ends or interrupts the section, and the owner must
  /// act on it; a call may then be open. Inside an argument's value everything but its own closing tag belongs to the
  /// value.
  bool handle(const XtmlEvent& event, std::vector<ToolCallDelta>& out);

  /// Ends an open call as a whole one, when a later tag shows that only its closing tag is missing.
  void end_call(std::vector<ToolCallDelta>& out);
  /// Forgets an open call: the answer ended in it.
  void drop_call();

  int complete_calls() const { return complete_calls_; }

 private:
  enum class Place {
    outside,        ///< between calls
    in_call,        ///< between the elements of a call
    string_value,   ///< streamed
    other_value,    ///< buffered until its element closes
    json_body,      ///< the whole arguments as raw JSON, buffered
    ignored_value,  ///< of a call without a name, an argument without a key, or behind a raw JSON body
  };

  bool handle_value(const XtmlEvent& event, std::vector<ToolCallDelta>& out);
  void start_call(const XtmlEvent& tag, std::vector<ToolCallDelta>& out);
  void start_argument(const XtmlEvent& tag, std::vector<ToolCallDelta>& out);
  void start_json();
  void end_value(std::vector<ToolCallDelta>& out);
  void emit(std::string_view arguments, std::vector<ToolCallDelta>& out) const;

  int earlier_calls_;
  int next_index_ = 0;
  int complete_calls_ = 0;

  Place place_ = Place::outside;
  TagName value_tag_ = TagName::argument;  // the element whose closing tag ends the value
  std::string buffer_;                     // of other_value and json_body
  bool named_ = false;                     // the open call has a name and is reported
  bool has_arguments_ = false;             // "{" has been written
  bool has_json_ = false;                  // a raw JSON body stands for all arguments
  bool repeated_key_ = false;
  std::unordered_set<std::string> keys_;
};

}  // namespace perigee
