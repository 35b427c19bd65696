// config.json, safetensors headers, the tensor list, synthetic checkpoints and loading them.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "cpu/ops.h"
#include "model/checkpoint.h"
#include "model/hub.h"
#include "model/memory_plan.h"
#include "model/synth.h"
#include "model/tensor_list.h"
#include "model/weight_loader.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : folder_(fs::temp_directory_path() / ("perigee-checkpoint-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CheckpointTest() override { fs::remove_all(folder_); }

  ModelConfig write(std::string_view preset, std::vector<std::string> overrides = {}) {
    const auto config = synth_config(preset, overrides);
    EXPECT_TRUE(config) << config.error().message;
    write_synthetic_checkpoint(*config, folder_.string(), {.seed = 3, .shard_bytes = 1 << 20, .quiet = true});
    return *load_config(folder_.string());
  }
  fs::path folder_;
};

ModelConfig preset(std::string_view name) {
  return *parse_config(json_dump(*synth_config(name)));
}

TEST(TensorList, FullK3IsThePublishedCheckpoint) {
  const ModelConfig k3 = preset("k3");
  const ModelTotals totals = count_tensors(k3);
  EXPECT_EQ(totals.all.tensors, 497052);
  EXPECT_EQ(totals.all.bytes, 1559965606912);
  EXPECT_EQ(totals.all.parameters, 2779484478208);
  const auto part = [&](Part p) { return totals.parts[static_cast<size_t>(p)]; };
  EXPECT_EQ(part(Part::experts).bytes, 1446456066048);
  EXPECT_EQ(part(Part::kda).bytes, 61258257408);
  EXPECT_EQ(part(Part::mla).bytes, 11145412608);
  EXPECT_EQ(part(Part::shared).bytes, 24310185984);
  EXPECT_EQ(part(Part::latent).bytes, 9454620672);
  EXPECT_EQ(part(Part::router).bytes, 1182074880);
  EXPECT_EQ(part(Part::dense).bytes, 1453326336);
  EXPECT_EQ(part(Part::embedding).bytes, 2348810240);
  EXPECT_EQ(part(Part::norms).parameters, 4021248);
  EXPECT_EQ(layer_trunk(k3, 0).size(), 23U);
  EXPECT_EQ(layer_trunk(k3, 1).size() + 6 * 896, 5404U);
  EXPECT_EQ(layer_trunk(k3, 3).size() + 6 * 896, 5398U);
  EXPECT_EQ(top_tensors(k3).size(), 5U);
  int64_t bytes = 0;
  for (const auto& spec : layer_trunk(k3, 1)) bytes += spec.bytes();
  EXPECT_EQ(bytes, 1267744256);
  EXPECT_TRUE(k3.is_mla[91] && k3.is_mla[92] && k3.is_mla[3] && !k3.is_mla[0]);
  EXPECT_EQ(list_text_tensors(preset("tiny")).size(), static_cast<size_t>(count_tensors(preset("tiny")).all.tensors));
}

TEST(Config, ProblemsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "no architectures"},
      {R"({"architectures":["LlamaForCausalLM"]})", "LlamaForCausalLM is not supported"},
      {R"({"architectures":["KimiK31ForConditionalGeneration"]})", "not supported yet"},
      {R"({"architectures":["KimiK3ForConditionalGeneration"]})", "no text_config"},
      {R"([1])", "no JSON object"},
      {R"({"architectures":["KimiLinearForCausalLM"],"linear_attn_config":{}})", "no hidden_size"},
  };
  for (const auto& [text, message] : cases) {
    const auto config = parse_config(text);
    ASSERT_FALSE(config) << text;
    EXPECT_NE(config.error().message.find(message), std::string::npos) << config.error().message;
  }
  const std::pair<const char*, const char*> overrides[] = {
      {"hidden_act=\"gelu\"", "hidden_act is \"gelu\""},
      {"moe_router_activation_func=\"softmax\"", "moe_router_activation_func"},
      {"num_expert_group=2", "num_expert_group is 2"},
      {"tie_word_embeddings=true", "tie_word_embeddings"},
      {"mla_use_nope=false", "mla_use_nope"},
      {"hidden_size=-1", "hidden_size"},
      {"moe_intermediate_size=100", "multiples of 32"},
      {"linear_attn_config.gate_lower_bound=-9", "gate_lower_bound"},
      {"linear_attn_config.kda_layers=[1,2,3,5,6,7,9]", "names layer 9"},
      {"linear_attn_config.kda_layers=[1,2,3,5,6]", "names 7 of 8 layers"},
      {"linear_attn_config.kda_layers=[0,1,2,3,5,6,7]", "count from 1"},
  };
  for (const auto& [entry, message] : overrides) {
    const std::string text[] = {entry};
    const auto json = synth_config("tiny", text);
    ASSERT_TRUE(json) << entry;
    const auto config = parse_config(json_dump(*json));
    ASSERT_FALSE(config) << entry;
    EXPECT_NE(config.error().message.find(message), std::string::npos) << config.error().message;
  }
}

TEST(Safetensors, HostileHeadersAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "no JSON object"},
      {R"({"a":3})", "tensor a: is no object"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "two integers"},
      {R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", "unknown dtype"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "integer >= 0"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", "overflows"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12 bytes by its shape and 8"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "outside"},
      {R"({"a":{"dtype":"F32","shape":[200],"data_offsets":[0,800]}})", "outside the 100 data bytes"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       "tensor b: overlaps tensor a"},
  };
  for (const auto& [text, message] : cases) {
    const auto header = parse_safetensors_header(text, 8, 108);
    ASSERT_FALSE(header) << text;
    EXPECT_NE(header.error().message.find(message), std::string::npos) << header.error().message;
  }
  const auto good = parse_safetensors_header(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]}})", 8, 108);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->at("a").offset, 12);
}

TEST_F(CheckpointTest, LoadedBytesAreTheWrittenOnes) {
  const ModelConfig config = write("tiny");
  const auto checkpoint = Checkpoint::open(folder_.string());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_GT(checkpoint->files().size(), 2U);
  LoadReport report;
  const Weights w = load_weights(*checkpoint, config, reference_ops(), {.threads = 3, .quiet = true}, &report);
  EXPECT_EQ(report.bytes,
            count_tensors(config).all.bytes - 17 * config.hidden * 2);  // *_res_proj is read with its norm

  const auto bytes_of = [&](const std::string& name) {
    for (const TensorSpec& spec : list_text_tensors(config)) {
      if (spec.name == name) return synth_tensor(spec, config, 3);
    }
    ADD_FAILURE() << name;
    return std::vector<std::byte>{};
  };
  const auto same = [](const std::byte* memory, const std::vector<std::byte>& bytes) {
    return std::memcmp(memory, bytes.data(), bytes.size()) == 0;
  };
  const std::string p = "language_model.model.layers.";
  const auto& kda = std::get<KdaWeights>(w.layers[1].attention);
  EXPECT_TRUE(same(kda.in.weight.data, bytes_of(p + "1.self_attn.q_proj.weight")));
  EXPECT_TRUE(same(kda.in.rows(3 * 256, 256).weight.data, bytes_of(p + "1.self_attn.g_proj.weight")));
  EXPECT_TRUE(same(kda.in.rows(4 * 256 + 128, 2).weight.data, bytes_of(p + "1.self_attn.b_proj.weight")));
  EXPECT_TRUE(same(kda.conv.rows(256, 256).data, bytes_of(p + "1.self_attn.k_conv1d.weight")));
  EXPECT_EQ(kda.a_log.dim(0), 2);
  const auto& mla = std::get<MlaWeights>(w.layers[3].attention);
  EXPECT_TRUE(same(mla.in.rows(128, 128).weight.data, bytes_of(p + "3.self_attn.kv_a_proj_with_mqa.weight")));
  const auto& moe = std::get<MoeWeights>(w.layers[2].ffn);
  EXPECT_TRUE(same(moe.experts.gate_up.at(5).rows(128, 128).data,
                   bytes_of(p + "2.block_sparse_moe.experts.5.w3.weight_packed")));
  EXPECT_TRUE(same(moe.experts.down_scale.at(7).data, bytes_of(p + "2.block_sparse_moe.experts.7.w2.weight_scale")));
  EXPECT_TRUE(same(w.lm_head.weight.data, bytes_of("language_model.lm_head.weight")));
}

TEST_F(CheckpointTest, SameSeedSameBytes) {
  const auto first_shard = [&] {
    write("kimi-linear-tiny");
    return *read_file(Checkpoint::open(folder_.string()).value().files()[0].path());
  };
  EXPECT_EQ(first_shard(), first_shard());
}

TEST_F(CheckpointTest, MissingAndMisshapenTensorsAreNamed) {
  write("tiny");
  const auto checkpoint = *Checkpoint::open(folder_.string());
  ModelConfig wider = preset("tiny");
  wider.dense_width *= 2;
  const auto problems = check_weights(checkpoint, wider);
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_NE(
      problems[0].find("language_model.model.layers.0.mlp.gate_proj.weight has shape [512, 256], expected [1024, 256]"),
      std::string::npos)
      << problems[0];
  ModelConfig more = preset("tiny");
  more.experts = 17;
  EXPECT_NE(fmt::format("{}", fmt::join(check_weights(checkpoint, more), "; "))
                .find("experts.16.w1.weight_packed is missing"),
            std::string::npos);
  EXPECT_THROW((void)load_weights(checkpoint, more, reference_ops(), {.quiet = true}), std::runtime_error);
}

TEST_F(CheckpointTest, NanScaleIsRefused) {
  const ModelConfig config = write("tiny");
  const auto checkpoint = *Checkpoint::open(folder_.string());
  const std::string name = "language_model.model.layers.4.block_sparse_moe.experts.3.w2.weight_scale";
  const auto place = checkpoint.find(name);
  std::FILE* file = std::fopen(checkpoint.files()[static_cast<size_t>(place.file)].path().c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  std::fseek(file, place.tensor->offset + 5, SEEK_SET);
  std::fputc(255, file);
  std::fclose(file);
  try {
    (void)load_weights(checkpoint, config, reference_ops(), {.quiet = true});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
  }
}

TEST_F(CheckpointTest, BrokenFoldersAreExplained) {
  EXPECT_NE(Checkpoint::open((folder_ / "none").string()).error().message.find("is no folder"), std::string::npos);
  EXPECT_NE(Checkpoint::open(folder_.string()).error().message.find("holds no safetensors"), std::string::npos);
  ASSERT_TRUE(
      write_file((folder_ / "model.safetensors.index.json").string(), R"({"weight_map":{"a":"../x.safetensors"}})"));
  EXPECT_NE(Checkpoint::open(folder_.string()).error().message.find("no file name of the folder"), std::string::npos);
  ASSERT_TRUE(
      write_file((folder_ / "model.safetensors.index.json").string(), R"({"weight_map":{"a":"x.safetensors"}})"));
  EXPECT_NE(Checkpoint::open(folder_.string()).error().message.find("lacks the shards x.safetensors"),
            std::string::npos);
  ASSERT_TRUE(write_file((folder_ / "x.safetensors").string(), "short"));
  EXPECT_NE(Checkpoint::open(folder_.string()).error().message.find("no safetensors file"), std::string::npos);
}

TEST_F(CheckpointTest, HubIdsResolveOffline) {
  ::setenv("HF_HUB_CACHE", folder_.c_str(), 1);
  EXPECT_NE(resolve_model_path("org/name").error().message.find("nothing is downloaded"), std::string::npos);
  const fs::path model = folder_ / "models--org--name";
  fs::create_directories(model / "snapshots" / "abc");
  EXPECT_EQ(*resolve_model_path("org/name"), (model / "snapshots" / "abc").string());
  fs::create_directories(model / "snapshots" / "def");
  EXPECT_FALSE(resolve_model_path("org/name"));
  fs::create_directories(model / "refs");
  ASSERT_TRUE(write_file((model / "refs" / "main").string(), "def\n"));
  EXPECT_EQ(*resolve_model_path("org/name"), (model / "snapshots" / "def").string());
  EXPECT_EQ(*resolve_model_path("org/name@abc"), (model / "snapshots" / "abc").string());
  EXPECT_FALSE(resolve_model_path("org/../name"));
  EXPECT_FALSE(resolve_model_path("org/name@../abc"));
  ::unsetenv("HF_HUB_CACHE");
}

TEST(MemoryPlan, FullK3) {
  const MemoryPlan plan = plan_memory(preset("k3"), DType::bf16, 131072, int64_t{2000} * 1000000000);
  EXPECT_EQ(plan.kv_per_token, 27648);
  EXPECT_EQ(plan.state_per_request, 434110464 + 2 * 15261696);
  EXPECT_GT(plan.requests(), 50);
  EXPECT_EQ(*parse_bytes("24GB"), 24000000000);
  EXPECT_EQ(*parse_bytes("1.5KiB"), 1536);
  for (const char* text : {"", "x", "12parsec", "-1GB", "0"}) EXPECT_FALSE(parse_bytes(text)) << text;
}

}  // namespace
}  // namespace perigee
