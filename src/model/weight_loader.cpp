#include "model/weight_loader.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "model/tensor_list.h"
#include "model/weight_layout.h"

namespace perigee {
namespace {

/// Bytes of one positioned read: large enough for a disk, small enough to share one tensor among threads.
constexpr int64_t kPieceBytes = int64_t{8} << 20;

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// Vectors may be stored with unit dimensions ([1, H], [P, 1, 4], [1, 1, N, 1]) or without.
std::vector<int64_t> squeezed(const std::vector<int64_t>& shape) {
  std::vector<int64_t> dims;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(dims), [](int64_t dim) { return dim != 1; });
  return dims;
}

/// A sentence about one tensor, or nothing.
std::string check_tensor(const Checkpoint& checkpoint, const TensorSpec& spec, int64_t least_elements) {
  const StoredTensor* stored = checkpoint.find(spec.name).tensor;
  if (stored == nullptr) return fmt::format("tensor {} is missing", spec.name);
  const bool vector = spec.role == TensorRole::vector;
  const bool shape_fits = vector ? squeezed(stored->shape) == squeezed(spec.shape) : stored->shape == spec.shape;
  // A_log may be padded beyond the heads, or not at all.
  int64_t elements = 1;
  for (const int64_t dim : stored->shape) elements *= dim;
  const bool prefix_fits =
      vector && least_elements < spec.elements() && squeezed(stored->shape).size() <= 1 && elements >= least_elements;
  if (!shape_fits && !prefix_fits) {
    return fmt::format("tensor {} has shape {}, expected {}", spec.name, shape_text(stored->shape),
                       shape_text(spec.shape));
  }
  const bool packed = spec.role == TensorRole::packed || spec.role == TensorRole::scale;
  const bool dtype_fits = packed
                              ? stored->dtype == "U8" || (spec.role == TensorRole::scale && stored->dtype == "F8_E8M0")
                          : vector ? stored->dtype == "BF16" || stored->dtype == "F32"
                                   : stored->dtype == dtype_name(spec.dtype);
  if (!dtype_fits) {
    return fmt::format("tensor {} is {}, expected {}", spec.name, stored->dtype,
                       packed   ? "U8"
                       : vector ? "BF16 or F32"
                                : dtype_name(spec.dtype));
  }
  return {};
}

std::vector<std::string> check_layout(const Checkpoint& checkpoint, const WeightLayout& layout, size_t limit) {
  std::vector<std::string> problems;
  const auto add = [&](std::string problem) {
    if (!problem.empty() && problems.size() < limit) problems.push_back(std::move(problem));
  };
  for (const TensorRead& read : layout.reads) {
    add(check_tensor(checkpoint, read.spec, read.elements));
    if (read.factor.empty()) continue;
    TensorSpec factor = read.spec;
    factor.name = read.factor;
    add(check_tensor(checkpoint, factor, factor.elements()));
  }
  return problems;
}

/// What the reader threads do.
class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const Ops& ops, std::vector<TensorRead> reads, Progress& progress)
      : checkpoint_(checkpoint), ops_(ops), progress_(progress) {
    for (TensorRead& read : reads) {
      const int64_t bytes = checkpoint.find(read.spec.name).tensor->bytes;
      const bool whole = read.spec.role == TensorRole::vector;
      for (int64_t begin = 0; begin < bytes; begin += kPieceBytes) {
        pieces_.push_back({read, begin, whole ? bytes : std::min(kPieceBytes, bytes - begin)});
        if (whole) break;
      }
    }
    // In file order, so that the disk sees mostly forward reads.
    std::sort(pieces_.begin(), pieces_.end(),
              [&](const Piece& a, const Piece& b) { return file_place(a) < file_place(b); });
  }

  void run(int threads) {
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) workers.emplace_back([this] { work(); });
    for (auto& worker : workers) worker.join();
    if (!failure_.empty()) throw std::runtime_error(failure_);
  }

 private:
  struct Piece {
    TensorRead read;
    int64_t begin = 0;
    int64_t bytes = 0;
  };

  std::pair<int32_t, int64_t> file_place(const Piece& piece) const {
    const auto place = checkpoint_.find(piece.read.spec.name);
    return {place.file, place.tensor->offset + piece.begin};
  }

  void work() {
    std::vector<std::byte> staging;
    for (size_t i = next_.fetch_add(1); i < pieces_.size() && !failed_.load(); i = next_.fetch_add(1)) {
      const std::string problem = load(pieces_[i], staging);
      if (problem.empty()) continue;
      const std::lock_guard lock(mutex_);
      failed_ = true;
      failure_ = problem;
    }
  }

  std::string load(const Piece& piece, std::vector<std::byte>& staging) {
    if (piece.read.spec.role == TensorRole::vector) return load_vector(piece.read);
    std::byte* target = piece.read.target + piece.begin;
    std::byte* direct = target;
    if (!ops_.host_memory) {
      staging.resize(static_cast<size_t>(piece.bytes));
      direct = staging.data();
    }
    const auto place = checkpoint_.find(piece.read.spec.name);
    const File& file = checkpoint_.files()[static_cast<size_t>(place.file)];
    const auto done = file.read_at(place.tensor->offset + piece.begin, {direct, static_cast<size_t>(piece.bytes)});
    if (!done) return done.error().message;
    if (piece.read.spec.role == TensorRole::scale &&
        std::memchr(direct, 255, static_cast<size_t>(piece.bytes)) != nullptr) {
      return fmt::format("tensor {} holds the scale byte 255, which is NaN", piece.read.spec.name);
    }
    if (!ops_.host_memory) upload(target, direct, piece.bytes);
    progress_.add(piece.bytes);
    return {};
  }

  std::string load_vector(const TensorRead& read) {
    std::vector<float> values;
    std::string problem = read_floats(read.spec.name, read.elements, values);
    if (!problem.empty()) return problem;
    if (!read.factor.empty()) {
      std::vector<float> factor;
      problem = read_floats(read.factor, read.elements, factor);
      if (!problem.empty()) return problem;
      for (size_t i = 0; i < values.size(); ++i) values[i] *= factor[i];
    }
    const auto bytes = static_cast<int64_t>(values.size()) * 4;
    if (ops_.host_memory) {
      std::memcpy(read.target, values.data(), static_cast<size_t>(bytes));
    } else {
      upload(read.target, reinterpret_cast<const std::byte*>(values.data()), bytes);
    }
    return {};
  }

  std::string read_floats(const std::string& name, int64_t elements, std::vector<float>& values) {
    const auto place = checkpoint_.find(name);
    std::vector<std::byte> raw(static_cast<size_t>(place.tensor->bytes));
    const auto done = checkpoint_.files()[static_cast<size_t>(place.file)].read_at(place.tensor->offset, raw);
    if (!done) return done.error().message;
    values.resize(static_cast<size_t>(elements));
    if (place.tensor->dtype == "F32") {
      std::memcpy(values.data(), raw.data(), values.size() * 4);
    } else {
      for (size_t i = 0; i < values.size(); ++i) {
        bf16 value;
        std::memcpy(&value, raw.data() + 2 * i, 2);
        values[i] = to_float(value);
      }
    }
    progress_.add(place.tensor->bytes);
    return {};
  }

  void upload(std::byte* target, const std::byte* from, int64_t bytes) {
    OpContext context;
    ops_.upload(context, View(target, DType::u8, {bytes}), from);
  }

  const Checkpoint& checkpoint_;
  const Ops& ops_;
  Progress& progress_;
  std::vector<Piece> pieces_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::string failure_;
};

}  // namespace

std::vector<std::string> check_weights(const Checkpoint& checkpoint, const ModelConfig& config, size_t limit) {
  return check_layout(checkpoint, WeightLayout(config, &checkpoint, nullptr), limit);
}

Weights weights_without_memory(const ModelConfig& config) {
  return std::move(WeightLayout(config, nullptr, nullptr).weights);
}

int64_t weight_bytes(const ModelConfig& config) {
  return WeightLayout(config, nullptr, nullptr).bytes();
}

Weights load_weights(const Checkpoint& checkpoint, const ModelConfig& config, const Ops& ops,
                     const LoadOptions& options, LoadReport* report) {
  const WeightLayout counted(config, &checkpoint, nullptr);
  const std::vector<std::string> problems = check_layout(checkpoint, counted, 10);
  if (!problems.empty()) {
    throw std::runtime_error(fmt::format("the checkpoint does not fit its config.json: {}", fmt::join(problems, "; ")));
  }
  const TimePoint start = SteadyClock().now();
  Buffer memory(ops, counted.bytes());
  WeightLayout layout(config, &checkpoint, memory.data());

  int64_t bytes = 0;
  for (const TensorRead& read : layout.reads) bytes += checkpoint.find(read.spec.name).tensor->bytes;
  LoadReport done{.tensors = static_cast<int64_t>(layout.reads.size()), .bytes = bytes};
  {
    Progress progress("loading", bytes, options.quiet);
    Loader(checkpoint, ops, std::move(layout.reads), progress).run(std::max(1, options.threads));
  }
  done.seconds = seconds(SteadyClock().now() - start);
  log_info("loaded {} tensors, {:.3f} GB in {:.2f} s ({:.2f} GB/s)", done.tensors, static_cast<double>(bytes) / 1e9,
           done.seconds, static_cast<double>(bytes) / 1e9 / std::max(done.seconds, 1e-9));
  if (report != nullptr) *report = done;
  layout.weights.memory = std::move(memory);
  return std::move(layout.weights);
}

}  // namespace perigee
