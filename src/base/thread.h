// Starts threads that take no signals: those belong to the trainer's own threads. The system may give none.
#pragma once

#include <functional>
#include <thread>

namespace ckpt {

// False if the system gives no thread, or no memory for one. The function must not throw.
bool start_thread(std::thread* thread, const std::function<void()>& body) noexcept;

}  // namespace ckpt
