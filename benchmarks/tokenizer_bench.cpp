// Speed of the tokenizer on one core, in MB/s of UTF-8: whole encodes of mixed, English, code and Chinese text, one
// long piece, and decoding. Beside it the floor of the work: the splitter alone.
//
// Run by hand from the root of the sources. PERIGEE_TOKENIZER names a folder with a real vocabulary; without it the
// tests' small one is used, which merges more per byte than a real one. PERIGEE_TEXT names a text file to use instead
// of the built-in mix.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "text/detokenizer.h"
#include "text/splitter.h"
#include "text/tokenizer.h"

#ifndef PERIGEE_SOURCE_DIR
#define PERIGEE_SOURCE_DIR "."
#endif

namespace perigee {
namespace {

constexpr size_t kTextBytes = 1 << 20;

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = [] {
    const char* folder = std::getenv("PERIGEE_TOKENIZER");
    Result<Tokenizer> loaded = Tokenizer::load(folder ? folder : PERIGEE_SOURCE_DIR "/tests/reference/tokenizer");
    if (!loaded) throw std::runtime_error(loaded.error().message);
    return std::move(*loaded);
  }();
  return kTokenizer;
}

constexpr std::string_view kEnglish[] = {
    "The server answers each request as soon as its first page is ready, and it doesn't wait for the others. ",
    "Nobody expected the measurements of 1987 to agree so well with theory; they did, within 0.3%. ",
    "\"Come in,\" she said, \"we've kept a place for you at the table.\"\n\n"};
constexpr std::string_view kCode[] = {
    "  for (size_t i = 0; i + 1 < parts.size(); ++i) {\n    total += parts[i].length;\n  }\n",
    "def make_request(self, path: str, *, timeout=30.0):\n    return self._session.get(f\"{self.base}/{path}\")\n\n",
    "{\"id\": 12345, \"name\": \"alpha_beta\", \"tags\": [\"x\", \"y\"], \"ok\": true}\n"};
constexpr std::string_view kChinese[] = {"服务器在第一页准备好之后立即回答每一个请求，不必等待其他的页面。",
                                         "这个模型支持很长的上下文，2024年的测试结果相当不错。\n",
                                         "请把下面的句子翻译成英文：天气很好，我们去公园走走。"};

/// Sentences in random order, their words varied so that not every piece is the same.
std::string make_text(std::vector<std::string_view> sentences) {
  PhiloxStream random(1);
  std::string text;
  while (text.size() < kTextBytes) {
    text += sentences[random.next_below(sentences.size())];
    for (uint64_t length = random.next_below(12); length > 0; --length)
      text += static_cast<char>('a' + random.next_below(26));
    text += ' ';
  }
  return text;
}

std::string mixed_text() {
  if (const char* path = std::getenv("PERIGEE_TEXT")) {
    Result<std::string> text = read_file(path);
    if (!text) throw std::runtime_error(text.error().message);
    return std::move(*text);
  }
  std::vector<std::string_view> all(std::begin(kEnglish), std::end(kEnglish));
  all.insert(all.end(), std::begin(kCode), std::end(kCode));
  all.insert(all.end(), std::begin(kChinese), std::end(kChinese));
  return make_text(all);
}

void set_speed(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * static_cast<int64_t>(state.iterations()));
}

void run_encode(benchmark::State& state, const std::string& text) {
  size_t tokens = 0;
  for (auto _ : state) {
    const std::vector<int32_t> ids = tokenizer().encode(text, Specials::as_ids);
    benchmark::DoNotOptimize(ids.data());
    tokens = ids.size();
  }
  set_speed(state, text.size());
  state.counters["bytes_per_token"] = static_cast<double>(text.size()) / static_cast<double>(tokens);
}

void encode_mixed(benchmark::State& state) {
  run_encode(state, mixed_text());
}
void encode_english(benchmark::State& state) {
  run_encode(state, make_text({std::begin(kEnglish), std::end(kEnglish)}));
}
void encode_code(benchmark::State& state) {
  run_encode(state, make_text({std::begin(kCode), std::end(kCode)}));
}
void encode_chinese(benchmark::State& state) {
  run_encode(state, make_text({std::begin(kChinese), std::end(kChinese)}));
}

void encode_one_word(benchmark::State& state) {
  PhiloxStream random(2);
  std::string text(static_cast<size_t>(state.range(0)), 'a');
  for (char& c : text) c = static_cast<char>('a' + random.next_below(26));
  run_encode(state, text);
}

void split_mixed(benchmark::State& state) {
  const std::string text = mixed_text();
  for (auto _ : state) {
    size_t pieces = 0;
    for (size_t start = 0; start < text.size(); ++pieces) start = next_piece(text, start);
    benchmark::DoNotOptimize(pieces);
  }
  set_speed(state, text.size());
}

void decode_mixed(benchmark::State& state) {
  const std::vector<int32_t> ids = tokenizer().encode(mixed_text(), Specials::as_text);
  size_t bytes = 0;
  for (auto _ : state) bytes = tokenizer().decode(ids).size();
  set_speed(state, bytes);
}

void stream_mixed(benchmark::State& state) {
  const std::vector<int32_t> ids = tokenizer().encode(mixed_text(), Specials::as_text);
  for (auto _ : state) {
    Detokenizer stream(tokenizer());
    for (const int32_t id : ids) benchmark::DoNotOptimize(stream.push(id).size());
  }
  state.SetItemsProcessed(static_cast<int64_t>(ids.size()) * static_cast<int64_t>(state.iterations()));
}

BENCHMARK(encode_mixed)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_english)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_code)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_chinese)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_one_word)->RangeMultiplier(8)->Range(64, 1 << 18)->Unit(benchmark::kMicrosecond);
BENCHMARK(split_mixed)->Unit(benchmark::kMillisecond);
BENCHMARK(decode_mixed)->Unit(benchmark::kMillisecond);
BENCHMARK(stream_mixed)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace perigee

BENCHMARK_MAIN();
