// Addresses in text that people see: a user, a password, a query and a fragment are often secrets.
// Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ckpt {

// Whether it begins as an address does, be its scheme right or mistyped; no path does.
bool is_address(std::string_view text);
// What is an address, whole, without its secrets; also one whose scheme is mistyped ("htps://", "http:/"). Any other
// text stays as it is.
std::string shown_url(std::string_view text);
// The same for each address that a text has somewhere.
std::string without_secrets(std::string_view text);
// With "***" in the place of each of these secrets.
std::string blotted(std::string text, std::span<const std::string> secrets);

}  // namespace ckpt
