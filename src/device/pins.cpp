#include "device/pins.h"

#include <map>
#include <mutex>

#include "device/device.h"

namespace ckpt::device {

namespace {

class Pins final : public Mapping::Hold {
 public:
  explicit Pins(Driver* driver) : driver_(driver) {}
  ~Pins() override {
    for (const auto& [data, size] : pieces_) driver_->unpin(data);
  }
  Status pin(int device, MutableBytes piece);

 private:
  Driver* driver_;
  std::mutex mutex_;
  std::map<std::byte*, uint64_t> pieces_;  // their sizes
};

Status Pins::pin(int device, MutableBytes piece) {
  std::lock_guard lock(mutex_);
  auto other = pieces_.upper_bound(piece.data());
  if (other != pieces_.begin() && std::prev(other)->first + std::prev(other)->second > piece.data()) --other;
  if (other != pieces_.end() && other->first == piece.data() && other->second == piece.size()) return Ok();
  while (other != pieces_.end() && other->first < piece.data() + piece.size()) {
    driver_->unpin(other->first);
    other = pieces_.erase(other);
  }
  CKPT_TRY(driver_->pin(device, piece));
  pieces_[piece.data()] = piece.size();
  return Ok();
}

}  // namespace

Status pin(Mapping& mapping, Driver* driver, int device, MutableBytes piece) {
  static std::mutex& making = *new std::mutex;
  Pins* pins = nullptr;
  {
    std::lock_guard lock(making);
    if (!mapping.hold()) mapping.hold() = std::make_unique<Pins>(driver);
    pins = static_cast<Pins*>(mapping.hold().get());
  }
  return pins->pin(device, piece);
}

}  // namespace ckpt::device
