// Elements of a checkpoint through a small buffer: whatever is cut where, they come in the order that was asked for.
#include "interop/src/tensor_stream.h"

#include "store_fixture.h"
#include "zip_fixture.h"

namespace ckpt::interop {
namespace {

class Stream : public StoreTest {
 protected:
  // The bytes of tensor "w", or of a box of it, through a buffer of `room` bytes, with `axes` from the outermost to the
  // innermost.
  std::string streamed(const Shape& shape, const std::vector<int>& axes, size_t room,
                       const std::optional<Box>& box = std::nullopt) {
    const client::Reader reader(open("a", "main"));
    std::vector<std::byte> buffer(room);
    std::string bytes;
    size_t firsts = 0, lasts = 0;
    TensorStream stream(reader, {}, buffer, [&](std::span<const TensorStream::Piece> pieces, Bytes batch) {
      for (const TensorStream::Piece& piece : pieces) firsts += piece.is_first, lasts += piece.is_last;
      bytes += as_text(batch);
      return Ok();
    });
    TensorRange range{"w", CKPT_DTYPE_U16, shape, 0, box ? box->volume() : *element_count(shape), axes, box};
    const Status status = stream.add(0, range).ok() ? stream.flush() : Status(CKPT_INTERNAL, "add");
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(firsts, 1u);
    EXPECT_EQ(lasts, 1u);
    return bytes;
  }
};

TEST_F(Stream, AxesInAnotherOrderAreCutWhereverTheBufferEnds) {
  const std::vector<uint64_t> extents = {3, 4, 5, 6};
  const Shape shape = Shape::of(extents);
  std::string elements, last;
  for (uint16_t i = 0; i < 360; i++) elements += little(i);
  for (uint16_t n = 0; n < 3; n++)
    for (uint16_t h = 0; h < 5; h++)
      for (uint16_t w = 0; w < 6; w++)
        for (uint16_t c = 0; c < 4; c++) last += little<uint16_t>(static_cast<uint16_t>(((n * 4 + c) * 5 + h) * 6 + w));
  save("a", {{{"w", CKPT_DTYPE_U16, {3, 4, 5, 6}, elements}}, {}, ""});
  // All of it, images, rows of an image, single places, and not even one of these.
  for (const size_t room : {1024u, 500u, 130u, 40u, 16u, 6u, 2u})
    EXPECT_EQ(streamed(shape, {0, 2, 3, 1}, room), last) << room;
  EXPECT_EQ(streamed(shape, {}, 128), elements);
}

TEST_F(Stream, BoxesAreCutWhereverTheBufferEnds) {
  const std::vector<uint64_t> extents = {9, 40}, from = {2, 11}, wanted = {5, 20};
  std::string elements, inside;
  for (uint16_t i = 0; i < 360; i++) elements += little(i);
  for (uint16_t i = 2; i < 7; i++)
    for (uint16_t j = 11; j < 31; j++) inside += little<uint16_t>(static_cast<uint16_t>(i * 40 + j));
  save("a", {{{"w", CKPT_DTYPE_U16, {9, 40}, elements}}, {}, ""});
  const Box box{Shape::of(from), Shape::of(wanted)};
  for (const size_t room : {1024u, 200u, 100u, 40u, 38u, 6u, 2u})
    EXPECT_EQ(streamed(Shape::of(extents), {0, 1}, room, box), inside) << room;
}

}  // namespace
}  // namespace ckpt::interop
