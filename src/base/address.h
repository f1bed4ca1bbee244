// Addresses: which of them are object stores, and what may be shown of one in text that people see. A user, a password,
// a query and a fragment are often secrets. Pure.
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

// Which object store an address names: "s3", "gs" or "az"; and where the name of its bucket begins. An account of Azure
// is known by the name of its host alone; with a query, which may be a signature for one file, it is a web server.
struct BucketAddress {
  std::string_view service;
  size_t bucket = 0;
};
// Without a service: it is no object store.
BucketAddress bucket_address(std::string_view address);
inline bool is_bucket_address(std::string_view address) { return !bucket_address(address).service.empty(); }

// Why option endpoint cannot be of both addresses: each service would get the other's keys. "" if it can.
std::string_view endpoint_trouble(std::string_view one, std::string_view other);

}  // namespace ckpt
