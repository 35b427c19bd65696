// The chat parser: channels, tool calls, the deviations models are known for, truncation, and that the result depends
// neither on how the answer was cut into pieces nor on how it was tokenised.
#include "text/chat_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <ostream>

#include "base/json.h"
#include "base/random.h"
#include "text/chat_encoder.h"
#include "text/support/byte_tokenizer.h"

namespace perigee {

bool operator==(const ParsedToolCall& a, const ParsedToolCall& b) {
  return a.id == b.id && a.name == b.name && a.arguments == b.arguments;
}
bool operator==(const ParsedChat& a, const ParsedChat& b) {
  return a.reasoning == b.reasoning && a.content == b.content && a.tool_calls == b.tool_calls;
}
void PrintTo(const ParsedChat& chat, std::ostream* out) {
  *out << "reasoning <" << chat.reasoning << "> content <" << chat.content << ">";
  for (const auto& call : chat.tool_calls) *out << " " << call.id << " " << call.name << "(" << call.arguments << ")";
}

namespace {

using testing::byte_tokenizer;

const Tokenizer& tokenizer(bool merges = false) {
  static const std::array<Tokenizer, 2> instances{byte_tokenizer(false), byte_tokenizer(true)};
  return instances[merges ? 1 : 0];
}

std::vector<int32_t> ids_of(std::string_view text, bool merges = false) {
  return tokenizer(merges).encode(text, Specials::as_ids);
}

ParsedChat parse_ids(const std::vector<int32_t>& ids, const ChatParserOptions& options = {}, bool merges = false) {
  ChatParser parser(tokenizer(merges), options);
  ChatCollector collector;
  for (const int32_t id : ids) collector.add(parser.push(id));
  collector.add(parser.finish());
  return collector.result();
}

ParsedChat parse(std::string_view text, const ChatParserOptions& options = {}) {
  return parse_ids(ids_of(text), options);
}

/// Text mode; pieces of `size` bytes, 0 for random sizes.
ParsedChat parse_text(std::string_view text, const ChatParserOptions& options, size_t size, PhiloxStream& random) {
  ChatParser parser(tokenizer(), options);
  ChatCollector collector;
  for (size_t at = 0; at < text.size();) {
    const size_t piece = size > 0 ? size : 1 + random.next_below(60);
    collector.add(parser.push_text(text.substr(at, piece)));
    at += piece;
  }
  collector.add(parser.finish());
  return collector.result();
}

ParsedChat said(std::string reasoning, std::string content, std::vector<ParsedToolCall> calls = {}) {
  return {std::move(reasoning), std::move(content), std::move(calls)};
}

std::string open(const std::string& header) {
  return "<|open|>" + header + "<|sep|>";
}
std::string close(const std::string& name) {
  return "<|close|>" + name + "<|sep|>";
}
std::string argument(const std::string& key, const std::string& type, const std::string& value) {
  return open("argument key=\"" + key + "\" type=\"" + type + "\"") + value + close("argument");
}
std::string call(const std::string& name, const std::string& body) {
  return open("call tool=\"" + name + "\" index=\"1\"") + body + close("call");
}

const std::string kEnd = close("message") + "<|end_of_msg|>";
const std::string kNoCalls = close("think") + open("response");

ChatParserOptions thinking_off() {
  ChatParserOptions options;
  options.starts_in_think = false;
  return options;
}

TEST(ChatParser, ReasoningAndContent) {
  EXPECT_EQ(parse(" why?\n" + kNoCalls + "\nHi 🎉 " + close("response") + kEnd), said(" why?\n", "\nHi 🎉 "));
  EXPECT_EQ(parse("Hi" + close("response") + kEnd, thinking_off()), said("", "Hi"));
}

TEST(ChatParser, ToolCalls) {
  const std::string calls =
      open("tools") +
      call("f", argument("s", "string", "a\"\n<b> 日") + argument("n", "number", " 1.50 ") +
                    argument("b", "boolean", "true") + argument("z", "null", "null") +
                    argument("l", "array", "[1,{\"x\":2}]") + argument("big", "number", "123456789012345678901")) +
      call("g &amp;&quot;h&amp;quot;", "") + close("tools");
  EXPECT_EQ(parse("r" + kNoCalls + "c" + close("response") + calls + kEnd),
            said("r", "c",
                 {{"f:0", "f",
                   "{\"s\": \"a\\\"\\n<b> 日\", \"n\": 1.5, \"b\": true, \"z\": null, \"l\": [1, {\"x\": 2}], \"big\": "
                   "123456789012345678901}"},
                  {"g &\"h&quot;:1", "g &\"h&quot;", "{}"}}));
}

TEST(ChatParser, IdsGoOnThroughTheConversation) {
  ChatParserOptions options;
  options.earlier_tool_calls = 4;
  const ParsedChat chat = parse(open("tools") + call("f", "") + call("f", ""), options);
  ASSERT_EQ(chat.tool_calls.size(), 2U);
  EXPECT_EQ(chat.tool_calls[0].id, "f:4");
  EXPECT_EQ(chat.tool_calls[1].id, "f:5");
}

TEST(ChatParser, ValuesKeepWhatTheModelWrote) {
  const auto arguments = [](const std::string& body) {
    const ParsedChat chat = parse(open("tools") + call("f", body) + kEnd);
    return chat.tool_calls.size() == 1 ? chat.tool_calls[0].arguments : "not one call";
  };
  EXPECT_EQ(arguments(argument("a", "string", "&quot; &amp; ")), R"({"a": "&quot; &amp; "})");
  EXPECT_EQ(arguments(argument("a", "number", "not json")), R"({"a": "not json"})");
  EXPECT_EQ(arguments(argument("a&quot;", "object", "{\"k\":[ ]}")), R"({"a\"": {"k": []}})");
  EXPECT_EQ(arguments(open("argument key=\"a\"") + "1" + close("argument")), R"({"a": "1"})");
  EXPECT_EQ(arguments(open("argument type=\"string\"") + "lost key" + close("argument") + argument("b", "string", "x")),
            R"({"b": "x"})");
  EXPECT_EQ(arguments(argument("a", "number", "1") + argument("b", "number", "2") + argument("a", "number", "3")),
            R"({"a": 3, "b": 2})");
  // Tags inside a string value are part of the value, but for its own end.
  EXPECT_EQ(arguments(argument("a", "string", open("think") + close("call") + "<|sep|>")),
            R"({"a": "<|open|>think<|sep|><|close|>call<|sep|><|sep|>"})");
  EXPECT_EQ(arguments(" \n " + argument("a", "string", "") + " prose \n"), R"({"a": ""})");
}

TEST(ChatParser, RawJsonArguments) {
  const auto arguments = [](const std::string& body) {
    return parse(open("tools") + call("f", body) + kEnd).tool_calls.at(0).arguments;
  };
  const auto json_body = [](const std::string& text) { return open("json type=\"object\"") + text + close("json"); };
  EXPECT_EQ(arguments(json_body(R"({"a":1,"b":[2]})")), R"({"a": 1, "b": [2]})");
  EXPECT_EQ(arguments(json_body("{oops")), "{oops");
  EXPECT_EQ(arguments(json_body(" ")), "{}");
  EXPECT_EQ(arguments(argument("a", "number", "1") + json_body("{}")), R"({"a": 1})");
  EXPECT_EQ(arguments(json_body("{\"b\": 1}") + argument("a", "number", "1")), R"({"b": 1})");
}

TEST(ChatParser, DeviationsAreTolerated) {
  const std::string tools = open("tools") + call("f", "") + close("tools");
  const ParsedToolCall f{"f:0", "f", "{}"};
  // Response omitted before tools; tools straight from think; a bare call.
  EXPECT_EQ(parse("r" + close("think") + tools + kEnd), said("r", "", {f}));
  EXPECT_EQ(parse("r" + tools + kEnd), said("r", "", {f}));
  EXPECT_EQ(parse("r" + call("f", "") + kEnd), said("r", "", {f}));
  // Response opened without closing think; message closed without closing the response; no end at all.
  EXPECT_EQ(parse("r" + open("response") + "c" + kEnd), said("r", "c"));
  EXPECT_EQ(parse("r" + close("message") + "<|end_of_msg|>"), said("r", ""));
  // The opener repeated.
  EXPECT_EQ(parse(open("think") + "r" + kNoCalls + "c" + kEnd), said("r", "c"));
  // No response opener: text behind think is content all the same.
  EXPECT_EQ(parse("r" + close("think") + "c" + kEnd), said("r", "c"));
  // A think block between calls, prose between and behind calls, a call that only lacks its end.
  EXPECT_EQ(parse("r" + open("tools") + "prose" + open("call tool=\"f\"") + close("think") + open("think") + "more" +
                  close("think") + open("call tool=\"g\"") + close("tools") + "prose" + kEnd),
            said("rmore", "", {f, {"g:1", "g", "{}"}}));
  // A think block inside a call interrupts it only.
  EXPECT_EQ(parse(open("tools") + open("call tool=\"f\"") + open("think") + "t" + close("think") + "prose" +
                  argument("a", "string", "v") + close("call") + kEnd),
            said("t", "", {{"f:0", "f", "{\"a\": \"v\"}"}}));
  // A message that ends inside a value; what follows is not part of it.
  EXPECT_EQ(parse(open("tools") + open("call tool=\"f\"") + open("argument key=\"a\" type=\"string\"") + "v" +
                  "<|end_of_msg|>" + open("tools") + call("g", "")),
            said("", "", {{"g:1", "g", "{}"}}));
  // A response behind the calls, and a second section.
  EXPECT_EQ(parse("r" + tools + open("response") + "c" + close("response") + tools + kEnd),
            said("r", "c", {f, {"f:1", "f", "{}"}}));
  // Calls without a name are dropped and not counted.
  EXPECT_EQ(
      parse(open("tools") + call("", argument("a", "string", "x")) + open("call") + close("call") + call("f", "")),
      said("", "", {f}));
  // Any order of attributes, any index.
  EXPECT_EQ(parse(open("tools") + open("call index=\"77\" tool=\"f\"") + close("call")), said("", "", {f}));
}

TEST(ChatParser, StrayThinkIsNeverContent) {
  EXPECT_EQ(parse("a" + open("think") + "r" + close("think") + "b" + close("response") + kEnd, thinking_off()),
            said("r", "ab"));
  EXPECT_EQ(parse(close("think") + open("response") + "b" + kEnd, thinking_off()), said("", "b"));
}

/// Ordinary tokens that spell a text, markers included.
std::vector<int32_t> spelled(std::string_view text) {
  return tokenizer().encode(text, Specials::as_text);
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(ChatParser, SpelledMarkersAreTextButForAnOpenerAtTheStart) {
  const std::string markup = open("think") + close("think") + open("tools");
  EXPECT_EQ(parse_ids(joined(spelled("x" + markup), ids_of(kNoCalls + "c"))), said("x" + markup, "c"));
  EXPECT_EQ(parse_ids(joined(spelled(open("think") + "r"), ids_of(kNoCalls + "c"))), said("r", "c"));
  EXPECT_EQ(parse_ids(joined(spelled(open("think") + "r"), ids_of(close("think") + "c")), thinking_off()),
            said("r", "c"));
  EXPECT_EQ(parse_ids(spelled("<|open|>thin")), said("", ""));
  EXPECT_EQ(parse_ids(spelled("<|op")), said("<|op", ""));
  EXPECT_EQ(parse_ids(joined(spelled("<|open|>thin"), ids_of(kNoCalls))), said("<|open|>thin", ""));
  EXPECT_EQ(parse_ids(spelled("<|open|>things")), said("<|open|>things", ""));
  const auto call_ids =
      joined(joined(ids_of(open("tools") + open("call tool=\"f\"") + open("argument key=\"a\" type=\"string\"")),
                    spelled(close("argument"))),
             ids_of(close("argument") + close("call")));
  EXPECT_EQ(parse_ids(call_ids), said("", "", {{"f:0", "f", "{\"a\": \"<|close|>argument<|sep|>\"}"}}));
}

TEST(ChatParser, MarkersThatMakeNoTagAreText) {
  EXPECT_EQ(parse("a" + open("thing") + "b" + close("x y") + "<|sep|>" + kNoCalls + "c"),
            said("a" + open("thing") + "b" + close("x y") + "<|sep|>", "c"));
  EXPECT_EQ(parse("a<|open|>" + close("think") + "c"), said("a<|open|>", "c"));
  EXPECT_EQ(parse("a<|open|>thin<|sep|>b"), said("a<|open|>thin<|sep|>b", ""));
  const std::string endless(20000, 'x');
  EXPECT_EQ(parse("<|open|>call " + endless + "<|sep|>"), said("<|open|>call " + endless + "<|sep|>", ""));
}

TEST(ChatParser, TruncationInsideAMarkerLeavesNoFragment) {
  const std::string answer = "why" + close("think") + open("response") + "text" + close("response") + open("tools") +
                             call("f", argument("a", "string", "v")) + call("g", "") + close("tools") + kEnd;
  const ParsedChat whole = parse(answer);
  ASSERT_EQ(whole.tool_calls.size(), 2U);
  const auto ids = ids_of(answer);
  const ChatParserOptions cut{.tools = ToolOutput::cut};
  for (size_t size = 0; size <= ids.size(); ++size) {
    for (const auto& options : {ChatParserOptions{}, cut}) {
      const ParsedChat part = parse_ids({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(size)}, options);
      ASSERT_TRUE(whole.reasoning.starts_with(part.reasoning)) << part.reasoning;
      ASSERT_TRUE(whole.content.starts_with(part.content)) << part.content;
      ASSERT_TRUE(std::equal(part.tool_calls.begin(), part.tool_calls.end(), whole.tool_calls.begin()));
      ASSERT_TRUE(options.tools == ToolOutput::parsed || part.tool_calls.empty());
    }
  }
}

TEST(ChatParser, TruncatedThinkingIsReasoning) {
  EXPECT_EQ(parse("long thought"), said("long thought", ""));
  EXPECT_EQ(parse("thought<|end_of_msg|>"), said("thought", ""));
}

TEST(ChatParser, WithoutToolsASectionIsCut) {
  ChatParserOptions options;
  options.tools = ToolOutput::cut;
  const std::string tools =
      open("tools") + call("f", argument("a", "string", open("response") + "leak")) + close("tools");
  EXPECT_EQ(parse("r" + kNoCalls + "c" + close("response") + tools + kEnd, options), said("r", "c"));
  EXPECT_EQ(parse("r" + call("f", "") + "x" + kEnd, options), said("r", ""));
}

TEST(ChatParser, RawAndMergedOutput) {
  const std::string tools = open("tools") + call("f", argument("a", "string", "v")) + close("tools");
  const std::string answer = "r" + kNoCalls + "c" + close("response") + tools + kEnd;
  const std::string tagged = "r" + kNoCalls + "c" + close("response");
  const ParsedToolCall f{"f:0", "f", "{\"a\": \"v\"}"};
  EXPECT_EQ(parse(answer, {.reasoning = ReasoningOutput::merged}), said("", "rc", {f}));
  EXPECT_EQ(parse(answer, {.tools = ToolOutput::raw}), said("r", "c" + tools));
  EXPECT_EQ(parse(answer, {.reasoning = ReasoningOutput::raw}), said("", tagged, {f}));
  EXPECT_EQ(parse(answer, {.reasoning = ReasoningOutput::raw, .tools = ToolOutput::raw}),
            said("", tagged + tools + close("message")));
  EXPECT_EQ(parse(answer + "<|open|>thi",
                  {.reasoning = ReasoningOutput::raw, .tools = ToolOutput::raw, .keep_special_tokens = true}),
            said("", answer + "<|open|>thi"));
  EXPECT_EQ(parse("a<|open|>thi<|end_of_msg|>", {.reasoning = ReasoningOutput::raw, .tools = ToolOutput::raw}),
            said("", "a<|open|>thi"));
}

TEST(ChatParser, BufferedReasoningComesInOnePiece) {
  ChatParser parser(tokenizer(), {.buffer_reasoning = true});
  std::vector<std::string> pieces;
  for (const int32_t id : ids_of("why not" + kNoCalls + "c")) {
    const ChatDelta delta = parser.push(id);
    if (!delta.reasoning.empty()) pieces.push_back(delta.reasoning);
  }
  EXPECT_THAT(pieces, ::testing::ElementsAre("why not"));
  EXPECT_EQ(parse("cut off", {.buffer_reasoning = true}), said("cut off", ""));
}

TEST(ChatParser, OtherSpecialTokensAreSkipped) {
  EXPECT_EQ(parse("a[EOS]b<|media_pad|>" + kNoCalls + "c[EOT]"), said("ab", "c"));
  EXPECT_EQ(parse("a[EOS]b" + kNoCalls + "c[EOT]", {.keep_special_tokens = true}), said("a[EOS]b", "c[EOT]"));
  // A generation that goes on behind the end of its message stays visible.
  EXPECT_EQ(parse("r<|end_of_msg|>more"), said("r", "more"));
}

TEST(ChatParser, CountsReasoningTokensToTheEndOfItsTag) {
  const auto count = [](const std::string& text, const ChatParserOptions& options = {}) {
    ChatParser parser(tokenizer(), options);
    for (const int32_t id : ids_of(text)) parser.push(id);
    parser.finish();
    return parser.reasoning_tokens();
  };
  EXPECT_EQ(count("abc" + close("think") + open("response") + "x"), 3 + 7);
  EXPECT_EQ(count("abc" + open("response") + "x"), 3 + 10);
  EXPECT_EQ(count("abc"), 3);
  EXPECT_EQ(count("abc", thinking_off()), 0);
}

TEST(ChatParser, TellsWhereItIs) {
  ChatParser parser(tokenizer(), {});
  EXPECT_TRUE(parser.in_reasoning());
  const auto feed = [&](const std::string& text) {
    for (const int32_t id : ids_of(text)) parser.push(id);
  };
  feed("r" + close("think"));
  EXPECT_FALSE(parser.in_reasoning());
  feed(open("tools") + call("f", ""));
  EXPECT_EQ(parser.complete_tool_calls(), 1);
  EXPECT_FALSE(parser.tools_closed());
  feed(close("tools"));
  EXPECT_TRUE(parser.tools_closed());
}

TEST(ChatParser, ArgumentsStreamWhileTheyAreWritten) {
  ChatParser parser(tokenizer(), {});
  std::vector<ToolCallDelta> pieces;
  const auto feed = [&](const std::string& text) {
    for (const int32_t id : ids_of(text)) {
      for (auto& piece : parser.push(id).tool_calls) pieces.push_back(std::move(piece));
    }
  };
  feed("r" + open("tools") + open("call tool=\"f\" index=\"1\""));
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].id, "f:0");
  EXPECT_EQ(pieces[0].name, "f");
  EXPECT_EQ(pieces[0].arguments, "");
  feed(open("argument key=\"path\" type=\"string\""));
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[1].arguments, "{\"path\": \"");
  feed("\"é");
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_EQ(pieces[2].arguments, "\\\"");
  EXPECT_EQ(pieces[3].arguments, "é");
  feed(close("argument") + open("argument key=\"n\" type=\"number\"") + "12");
  ASSERT_EQ(pieces.size(), 6U);
  EXPECT_EQ(pieces[4].arguments, "\"");
  EXPECT_EQ(pieces[5].arguments, ", \"n\": ");
  feed(close("argument") + close("call"));
  ASSERT_EQ(pieces.size(), 8U);
  EXPECT_EQ(pieces[6].arguments, "12");
  EXPECT_FALSE(pieces[6].complete);
  EXPECT_EQ(pieces[7].arguments, "}");
  EXPECT_TRUE(pieces[7].complete);
  for (size_t i = 1; i < pieces.size(); ++i) EXPECT_TRUE(pieces[i].id.empty() && pieces[i].name.empty());
}

TEST(ChatParser, ACharacterIsNeverSplit) {
  ChatParser parser(tokenizer(), {});
  std::string seen;
  for (const int32_t id : ids_of("🎉é")) {
    const std::string piece = parser.push(id).reasoning;
    EXPECT_TRUE(piece.empty() || piece == "🎉" || piece == "é") << piece;
    seen += piece;
  }
  EXPECT_EQ(seen, "🎉é");
  parser = ChatParser(tokenizer(), {});
  const auto emoji = ids_of("🎉");
  parser.push(emoji[0]);
  EXPECT_EQ(parser.push(*tokenizer().special_id("<|close|>")).reasoning, "\uFFFD");
  parser.push(emoji[0]);  // and at the end of the stream
  EXPECT_EQ(parser.finish().content, "");
}

/// A random answer made of the format's own pieces, in good and in bad order.
std::string random_answer(PhiloxStream& random) {
  const std::vector<std::string> pieces{"text ",
                                        "<",
                                        "<|",
                                        "<|open",
                                        "日本",
                                        "🎉",
                                        "\n",
                                        "\"q\\",
                                        "&quot;",
                                        "think",
                                        "12",
                                        "{\"a\":1}",
                                        "é",
                                        "<|open|>",
                                        "<|close|>",
                                        "<|sep|>",
                                        "<|end_of_msg|>",
                                        open("think"),
                                        close("think"),
                                        open("response"),
                                        close("response"),
                                        open("tools"),
                                        close("tools"),
                                        open("tools"),
                                        open("call tool=\"f\" index=\"1\""),
                                        open("call tool=\"g&quot;\""),
                                        open("call"),
                                        close("call"),
                                        argument("k", "string", "val"),
                                        argument("n", "number", "1.50"),
                                        argument("k", "object", "{\"x\" : [1 ]}"),
                                        open("argument key=\"s\" type=\"string\""),
                                        open("argument key=\"o\" type=\"array\""),
                                        close("argument"),
                                        open("json type=\"object\""),
                                        close("json"),
                                        close("message"),
                                        open("message role=\"user\""),
                                        call("h", argument("a", "string", "b"))};
  std::string answer;
  for (uint64_t n = random.next_below(24); n > 0; --n) answer += pieces[random.next_below(pieces.size())];
  return answer;
}

ChatParserOptions random_options(PhiloxStream& random) {
  ChatParserOptions options;
  options.starts_in_think = random.next_below(2) == 0;
  options.reasoning = static_cast<ReasoningOutput>(random.next_below(3));
  options.tools = static_cast<ToolOutput>(random.next_below(3));
  options.buffer_reasoning = random.next_below(4) == 0;
  options.keep_special_tokens = random.next_below(4) == 0;
  options.earlier_tool_calls = static_cast<int>(random.next_below(3));
  return options;
}

TEST(ChatParser, TheResultDoesNotDependOnTheCut) {
  PhiloxStream random(11);
  size_t calls = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::string answer = random_answer(random);
    const ChatParserOptions options = random_options(random);
    const ParsedChat whole = parse_text(answer, options, answer.size() + 1, random);
    for (const size_t size : {1, 2, 3, 5, 7, 13, 50, 0, 0}) {
      ASSERT_EQ(parse_text(answer, options, size, random), whole) << answer << "\nin pieces of " << size;
    }
    // Markers by id and the text between them in two tokenisations: the same again.
    ASSERT_EQ(parse_ids(ids_of(answer), options), whole) << answer;
    ASSERT_EQ(parse_ids(ids_of(answer, true), options, true), whole) << answer;
    calls += whole.tool_calls.size();
  }
  EXPECT_GT(calls, 500U);
}

TEST(ChatParser, ToolCallPiecesAreWellFormed) {
  PhiloxStream random(13);
  for (int round = 0; round < 4000; ++round) {
    const std::string answer = random_answer(random);
    ChatParser parser(tokenizer(), {});
    int index = -1;
    bool complete = true;
    int complete_calls = 0;
    std::string arguments;
    for (const int32_t id : ids_of(answer)) {
      for (const auto& piece : parser.push(id).tool_calls) {
        const bool first = piece.index != index;
        ASSERT_EQ(piece.index, first ? index + 1 : index) << answer;
        ASSERT_EQ(!piece.name.empty(), first) << answer;
        ASSERT_EQ(!piece.id.empty(), first) << answer;
        ASSERT_TRUE(first || !complete) << answer;
        arguments = (first ? "" : arguments) + piece.arguments;
        index = piece.index;
        complete = piece.complete;
        if (!complete) continue;
        ++complete_calls;
        const bool raw_body = answer.find("<|open|>json") != std::string::npos;
        ASSERT_TRUE(raw_body || parse_json(arguments).ok()) << arguments;
      }
    }
    ASSERT_EQ(parser.complete_tool_calls(), complete_calls);
  }
}

TEST(ChatParser, ReadsBackWhatTheEncoderWrites) {
  const auto encoder = ChatEncoder::create(tokenizer());
  ASSERT_TRUE(encoder.ok());
  PhiloxStream random(17);
  const std::vector<std::string> texts{"", "a", " \n", "<|open|>x", "日本 🎉", "\"&quot;&\\", "<|end_of_msg|>", "<"};
  const auto text = [&] { return texts[random.next_below(texts.size())] + texts[random.next_below(texts.size())]; };
  for (int round = 0; round < 2000; ++round) {
    ChatMessage assistant;
    assistant.role = "assistant";
    assistant.reasoning = "." + text();
    const std::string content = "." + text();
    assistant.content = {{content, std::nullopt}};
    ParsedChat expected{assistant.reasoning, content, {}};
    for (uint64_t n = random.next_below(3); n > 0; --n) {
      json::object arguments;
      for (uint64_t k = random.next_below(4); k > 0; --k) {
        const std::vector<json::value> values{json::value(text()),         json::value(1.5),     json::value(-7),
                                              json::value(true),           json::value(nullptr), json::array{text(), 2},
                                              json::object{{text(), 1e30}}};
        arguments["k" + text()] = values[random.next_below(values.size())];
      }
      const std::string name = "f" + text();
      assistant.tool_calls.push_back({"", name, arguments});
      expected.tool_calls.push_back(
          {name + ":" + std::to_string(expected.tool_calls.size()), name, json_dump(arguments, JsonStyle::python)});
    }
    ChatInput input;
    ChatMessage user;
    user.role = "user";
    input.messages = {user};
    const auto stub = encoder->encode(input)->ids.size();
    input.messages.push_back(assistant);
    const auto whole = encoder->encode(input);
    const auto& ids = whole->ids;
    const auto end = whole->message_ends.back();
    ASSERT_EQ(parse_ids({ids.begin() + static_cast<std::ptrdiff_t>(stub), ids.begin() + end}), expected);
  }
}

}  // namespace
}  // namespace perigee
