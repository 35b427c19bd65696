#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace perigee {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() : folder_(std::filesystem::temp_directory_path() / ("perigee-file-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
};

TEST_F(FileTest, WritesAndReadsBack) {
  const std::string content("a\0b\n", 4);
  ASSERT_TRUE(write_file(path("x"), content));
  EXPECT_EQ(*read_file(path("x")), content);
  EXPECT_FALSE(std::filesystem::exists(path("x.tmp")));
}

TEST_F(FileTest, ReadsAtAnOffsetAndRefusesBeyondTheEnd) {
  ASSERT_TRUE(write_file(path("x"), "0123456789"));
  const auto file = File::open_read(path("x"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 10);
  std::byte bytes[4];
  ASSERT_TRUE(file->read_at(6, bytes));
  EXPECT_EQ(static_cast<char>(bytes[0]), '6');
  const auto beyond = file->read_at(7, bytes);
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().message.find("the file ends at 10"), std::string::npos) << beyond.error().message;
}

TEST_F(FileTest, ErrorsNameThePath) {
  for (const auto& result : {read_file(path("missing")), read_file(folder_.string())}) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find(folder_.string()), std::string::npos) << result.error().message;
  }
  ASSERT_TRUE(write_file(path("x"), "0123456789"));
  EXPECT_FALSE(read_file(path("x"), 9));
  EXPECT_FALSE(write_file(path("no/such/folder"), "x"));
}

}  // namespace
}  // namespace perigee
