// The chat encoder against published token ids of the real Kimi K3 tokenizer.
//
// The real vocabulary is not needed: the test builds one of the same size in which the tokens of these prompts have
// their real ids, and every other rank is a string that no UTF-8 text contains. How a word of two tokens is cut is our
// guess and does not matter here; ids, segment borders and order do.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "text/chat_encoder.h"
#include "text/support/byte_tokenizer.h"

namespace perigee {
namespace {

constexpr int kRanks = 163584;

/// The single bytes in the vocabulary's order: the printable ones first, then the rest, each ascending.
std::vector<std::string> byte_order() {
  std::vector<std::string> bytes;
  const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  for (const bool wanted : {true, false}) {
    for (int b = 0; b < 256; ++b) {
      if (printable(b) == wanted) bytes.emplace_back(1, static_cast<char>(b));
    }
  }
  return bytes;
}

const std::map<std::string, int>& known_tokens() {
  static const std::map<std::string, int> tokens{
      {"message", 2778},    {"think", 39964},    {"response", 12092}, {"tools", 25385},     {"call", 10257},
      {"argument", 47185},  {" role", 6244},     {" type", 1798},     {" tool", 4453},      {" index", 4002},
      {" key", 2355},       {"=\"", 878},        {"system", 14062},   {"user", 2482},       {"assistant", 69702},
      {"tool", 20960},      {"string", 2033},    {"number", 10006},   {"thinking", 130400}, {"-eff", 59991},
      {"ort", 470},         {"_eff", 123074},    {"Hi", 18699},       {" guides", 28560},   {" on", 418},
      {" how", 1632},       {" much", 2455},     {" to", 308},        {" think", 2704},     {" in", 306},
      {" your", 651},       {" thinking", 9545}, {" channel", 8491},  {" (", 347},          {"not", 2976},
      {" including", 3411}, {" the", 276},       {" response", 4503}, {"),", 904},          {" supported", 9141},
      {" values", 4661},    {" include", 3867},  {" `", 1268},        {"low", 1332},        {"`,", 5713},
      {"medium", 50004},    {"high", 19421},     {" and", 316},       {"max", 5354},        {"`.\n", 16518},
      {"Now", 10048},       {" system", 2403},   {" is", 387},        {" invoked", 42070},  {" with", 472},
      {"=max", 105281},     {"`.", 11369},       {"because", 47221},  {"get", 618},         {"_we", 21055},
      {"ather", 2800},      {"city", 37666},     {"days", 21030},     {"Paris", 113476},    {"18", 1428},
      {" \"", 414},         {"日本", 4546},      {"語", 63011},       {" \xF0\x9F", 17137}, {"second", 8959},
      {" line", 2470},      {"What", 5376},      {" does", 2354},     {" [", 793},          {"EOS", 85521},
      {" mean", 4992},      {" vs", 12583},      {"PAD", 54904},      {"UNK", 57780},       {"]?", 87795}};
  return tokens;
}

Tokenizer golden_tokenizer() {
  std::vector<std::string> ranks = byte_order();
  ranks.resize(kRanks);
  std::map<std::string, int> taken = known_tokens();
  for (const auto& [text, id] : taken) ranks[static_cast<size_t>(id)] = text;
  // Steps by which merging reaches the tokens that only appear inside longer words.
  int next = 256;
  const auto place = [&](const std::string& text) {
    if (!taken.emplace(text, 0).second) return;
    while (!ranks[static_cast<size_t>(next)].empty()) ++next;
    ranks[static_cast<size_t>(next)] = text;
  };
  for (const std::string word : {"thinking", "-eff", "ort", "_eff", "_we", "ather", "low", "日本", "語", " \xF0\x9F"}) {
    for (size_t n = 2; n < word.size(); ++n) place(word.substr(0, n));
  }
  std::string file;
  for (int i = 0; i < kRanks; ++i) {
    std::string& text = ranks[static_cast<size_t>(i)];
    if (text.empty()) {
      text = {'\xFF', static_cast<char>(i >> 16), static_cast<char>(i >> 8 & 255), static_cast<char>(i & 255)};
    }
    file += testing::base64(text) + " " + std::to_string(i) + "\n";
  }
  return std::move(Tokenizer::from_text(file, testing::special_config(kRanks))).value();
}

const Tokenizer& tokenizer() {
  static const Tokenizer instance = golden_tokenizer();
  return instance;
}

using Ids = std::vector<int32_t>;

Ids operator+(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

ChatMessage message(std::string role, std::string text) {
  ChatMessage result;
  result.role = std::move(role);
  result.content = {{std::move(text), std::nullopt}};
  return result;
}

Ids encode(std::vector<ChatMessage> messages, std::optional<std::string> effort = {}, bool thinking = true) {
  ChatInput input;
  input.messages = std::move(messages);
  input.effort = std::move(effort);
  input.thinking = thinking;
  const auto encoder = ChatEncoder::create(tokenizer());
  return encoder->encode(input)->ids;
}

bool contains(const Ids& all, const Ids& part) {
  return std::search(all.begin(), all.end(), part.begin(), part.end()) != all.end();
}

const Ids kHi{163587, 2778, 6244, 878, 2482, 1, 163589, 18699, 163588, 2778, 163589, 163586};
const Ids kAssistant{163587, 2778, 6244, 878, 69702, 1, 163589};
const Ids kThink{163587, 39964, 163589};

Ids effort_message(const Ids& last_word) {
  return Ids{163587, 2778,   6244,   878,   14062, 1,     1798,   878,    130400, 59991, 470,  1,     163589,
             63,     130400, 123074, 470,   63,    28560, 418,    1632,   2455,   308,   2704, 306,   651,
             9545,   8491,   347,    2976,  3411,  276,   4503,   8491,   904,    9141,  4661, 3867,  1268,
             1332,   5713,   1268,   50004, 5713,  1268,  19421,  5713,   316,    1268,  5354, 16518, 10048,
             276,    2403,   387,    42070, 472,   1268,  130400, 123074, 470} +
         last_word + Ids{11369, 163588, 2778, 163589, 163586};
}

TEST(ChatGolden, OneUserMessage) {
  const Ids ids = encode({message("user", "Hi")});
  EXPECT_EQ(ids, kHi + kAssistant + kThink);
  EXPECT_EQ(ids.size(), 22U);
  const Ids response{163587, 12092, 163589};
  EXPECT_EQ(encode({message("user", "Hi")}, {}, false), kHi + kAssistant + response);
}

TEST(ChatGolden, EffortMessages) {
  const Ids ids = encode({message("user", "Hi")}, "max");
  EXPECT_EQ(ids, effort_message({105281}) + kHi + kAssistant + kThink);
  EXPECT_EQ(ids.size(), 89U);
  EXPECT_EQ(encode({message("user", "Hi")}, "low"), effort_message({28, 1332}) + kHi + kAssistant + kThink);
}

TEST(ChatGolden, ReasoningIsKept) {
  ChatMessage assistant = message("assistant", "a1");
  assistant.reasoning = "because";
  const Ids ids = encode({message("user", "q1"), assistant, message("user", "q2")});
  EXPECT_EQ(ids.size(), 62U);
  const Ids tail{47221, 163588, 39964, 163589, 163587, 12092, 163589, 64,
                 16,    163588, 12092, 163589, 163588, 2778,  163589, 163586};
  EXPECT_TRUE(contains(ids, kAssistant + kThink + tail));
}

TEST(ChatGolden, ToolTurn) {
  ChatMessage assistant = message("assistant", "");
  assistant.tool_calls = {{"1", "get_weather", json::object{{"city", "Paris"}, {"days", 3}}}};
  ChatMessage result = message("tool", "18C");
  result.tool_call_id = "1";
  const Ids ids = encode({message("user", "q"), assistant, result});
  const Ids expected{163587, 25385,  163589, 163587, 10257,  4453,   878,    618,    21055,  2800,   1,      4002,
                     878,    16,     1,      163589, 163587, 47185,  2355,   878,    37666,  1,      1798,   878,
                     2033,   1,      163589, 113476, 163588, 47185,  163589, 163587, 47185,  2355,   878,    21030,
                     1,      1798,   878,    10006,  1,      163589, 18,     163588, 47185,  163589, 163588, 10257,
                     163589, 163588, 25385,  163589, 163588, 2778,   163589, 163586, 163587, 2778,   6244,   878,
                     20960,  1,      4453,   878,    618,    21055,  2800,   1,      4002,   878,    16,     1,
                     163589, 1428,   34,     163588, 2778,   163589, 163586};
  EXPECT_TRUE(contains(ids, expected));
}

TEST(ChatGolden, UserTextIsOrdinary) {
  const Ids open{163587, 2778, 6244, 878, 2482, 1, 163589};
  const Ids close{163588, 2778, 163589, 163586};
  const Ids mixed{64, 5, 65, 414, 80, 1, 220, 4546, 63011, 17137, 236, 231, 198, 8959, 2470};
  EXPECT_EQ(encode({message("user", "a&b \"q\" 日本語 🎉\nsecond line")}), open + mixed + close + kAssistant + kThink);
  const Ids names{5376, 2354, 793, 85521, 60, 4992, 12583, 793, 54904, 60, 316, 793, 57780, 87795};
  EXPECT_EQ(encode({message("user", "What does [EOS] mean vs [PAD] and [UNK]?")}),
            open + names + close + kAssistant + kThink);
}

}  // namespace
}  // namespace perigee
