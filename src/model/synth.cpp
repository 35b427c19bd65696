#include "model/synth.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "base/file.h"
#include "base/hash.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/thread_pool.h"

namespace perigee {
namespace {

/// Elements made from one Philox stream; also the unit of parallel work.
constexpr int64_t kBlock = int64_t{1} << 16;

bool ends_with(const TensorSpec& spec, std::string_view suffix) {
  return spec.name.ends_with(suffix);
}

/// How one tensor's values are drawn: mean + spread * normal, or bytes.
struct Recipe {
  float mean = 0;
  float spread = 0;
  int scale_low = 0;  ///< E8M0: this byte or the next
};

Recipe recipe(const TensorSpec& spec, const ModelConfig& c) {
  if (spec.role == TensorRole::scale) {
    // Uniform codes have an rms of about 2.9, so this brings a row's products to unit variance.
    const double in = static_cast<double>(spec.shape[1]) * kMxGroup;
    return {.scale_low = 127 + static_cast<int>(std::floor(std::log2(1.0 / (2.9 * std::sqrt(in)))))};
  }
  if (spec.role == TensorRole::matrix) {
    if (spec.part == Part::embedding) return {0, 1};
    return {0, static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.shape[1])))};
  }
  if (ends_with(spec, "_res_proj.weight"))
    return {0, static_cast<float>(0.7 / std::sqrt(static_cast<double>(c.hidden)))};
  if (ends_with(spec, "_conv1d.weight")) return {0, 0.4F};
  if (ends_with(spec, "dt_bias")) return {0, 0.5F};
  if (ends_with(spec, "A_log")) return {0.4F, 0.5F};
  if (ends_with(spec, "e_score_correction_bias")) return {0, 0.01F};
  return {1, 0.1F};
}

/// Elements [begin, end) of a tensor; begin is a multiple of kBlock.
void fill_block(const TensorSpec& spec, const Recipe& r, const ModelConfig& c, uint64_t key, int64_t begin, int64_t end,
                std::byte* out) {
  PhiloxStream random(key, static_cast<uint64_t>(begin / kBlock));
  if (spec.role == TensorRole::packed) {
    for (int64_t i = begin; i < end; i += 4) {
      const uint32_t word = random.next_u32();
      std::memcpy(out + (i - begin), &word, static_cast<size_t>(std::min<int64_t>(4, end - i)));
    }
    return;
  }
  for (int64_t i = begin; i < end; ++i) {
    if (spec.role == TensorRole::scale) {
      out[i - begin] = static_cast<std::byte>(r.scale_low + static_cast<int>(random.next_u32() >> 31));
      continue;
    }
    float value = r.mean + r.spread * random.next_normal();
    // A_log is per head; the released file pads it with exact zeros.
    if (ends_with(spec, "A_log") && i >= c.kda_heads) value = 0;
    if (spec.dtype == DType::f32) {
      std::memcpy(out + (i - begin) * 4, &value, 4);
    } else {
      const bf16 rounded = to_bf16(value);
      std::memcpy(out + (i - begin) * 2, &rounded, 2);
    }
  }
}

/// One file being written; throws with the path and the reason.
class ShardFile {
 public:
  explicit ShardFile(std::string path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb"), &std::fclose) {
    if (file_ == nullptr) fail();
  }
  void write(const void* data, size_t bytes) {
    if (std::fwrite(data, 1, bytes, file_.get()) != bytes) fail();
  }
  void close() {
    if (std::fclose(file_.release()) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw std::runtime_error(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
  }
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

void write_tensor(ShardFile& file, const TensorSpec& spec, const ModelConfig& c, uint64_t seed, ThreadPool& pool,
                  std::vector<std::byte>& buffer) {
  constexpr int64_t kBlocksAtOnce = 64;
  const Recipe r = recipe(spec, c);
  const uint64_t key = hash64(spec.name, seed);
  const int64_t size = dtype_bits(spec.dtype) / 8;
  for (int64_t begin = 0; begin < spec.elements(); begin += kBlock * kBlocksAtOnce) {
    const int64_t end = std::min(spec.elements(), begin + kBlock * kBlocksAtOnce);
    buffer.resize(static_cast<size_t>((end - begin) * size));
    pool.parallel_for((end - begin + kBlock - 1) / kBlock, [&](int64_t block, int) {
      const int64_t from = begin + block * kBlock;
      fill_block(spec, r, c, key, from, std::min(end, from + kBlock), buffer.data() + (from - begin) * size);
    });
    file.write(buffer.data(), buffer.size());
  }
}

std::string header_json(std::span<const TensorSpec> shard) {
  json::object header;
  header["__metadata__"] = {{"format", "pt"}};
  int64_t offset = 0;
  for (const TensorSpec& spec : shard) {
    header[spec.name] = {{"dtype", dtype_name(spec.dtype)},
                         {"shape", json::array(spec.shape.begin(), spec.shape.end())},
                         {"data_offsets", json::array{offset, offset + spec.bytes()}}};
    offset += spec.bytes();
  }
  std::string text = json_dump(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

std::vector<std::vector<TensorSpec>> split_shards(const ModelConfig& config, int64_t shard_bytes) {
  std::vector<std::vector<TensorSpec>> shards(1);
  int64_t bytes = 0;
  for_each_tensor(config, [&](const TensorSpec& spec) {
    if (bytes >= shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(spec);
    bytes += spec.bytes();
  });
  return shards;
}

void write_text(const std::string& path, std::string_view text) {
  const auto written = write_file(path, text);
  if (!written) throw std::runtime_error(written.error().message);
}

}  // namespace

std::vector<std::byte> synth_tensor(const TensorSpec& spec, const ModelConfig& config, uint64_t seed) {
  std::vector<std::byte> bytes(static_cast<size_t>(spec.bytes()));
  const int64_t size = dtype_bits(spec.dtype) / 8;
  for (int64_t begin = 0; begin < spec.elements(); begin += kBlock) {
    fill_block(spec, recipe(spec, config), config, hash64(spec.name, seed), begin,
               std::min(spec.elements(), begin + kBlock), bytes.data() + begin * size);
  }
  return bytes;
}

void write_synthetic_checkpoint(const json::value& config, const std::string& folder, const SynthOptions& options) {
  const auto parsed = parse_config(json_dump(config));
  if (!parsed) throw std::runtime_error(parsed.error().message);
  const ModelConfig& c = *parsed;
  write_text(folder + "/tiktoken.model", synth_tokenizer_model(c.vocab, options.seed));
  write_text(folder + "/tokenizer_config.json", synth_tokenizer_config(c.vocab));
  write_text(folder + "/generation_config.json",
             json_dump(json::object{{"eos_token_id", c.vocab - kSpecialSlots + 2}, {"max_length", c.max_positions}}));

  const auto shards = split_shards(c, options.shard_bytes);
  ThreadPool pool(std::max(1, options.threads));
  Progress progress("writing", count_tensors(c).all.bytes, options.quiet);
  json::object weight_map;
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    ShardFile file(folder + "/" + name);
    const std::string header = header_json(shards[i]);
    const uint64_t length = header.size();
    file.write(&length, sizeof length);
    file.write(header.data(), header.size());
    for (const TensorSpec& spec : shards[i]) {
      write_tensor(file, spec, c, options.seed, pool, buffer);
      progress.add(spec.bytes());
      weight_map[spec.name] = name;
    }
    file.close();
  }
  const json::object index = {{"metadata", {{"total_size", count_tensors(c).all.bytes}}}, {"weight_map", weight_map}};
  write_text(folder + "/model.safetensors.index.json", json_dump(index));
  // Last, so that a folder with a config.json is complete.
  write_text(folder + "/config.json", json_dump(config));
}

}  // namespace perigee
