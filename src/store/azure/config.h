// Where an az:// store is and how it is reached, from its URI, its options and the environment, in this order.
#pragma once

#include <string>
#include <string_view>

#include "store/cloud/place.h"

namespace ckpt::store::azure {

using namespace cloud;

// Of a connection string, "AccountName=a;AccountKey=…": its names in lower case, as any case will do.
using Connection = std::map<std::string, std::string, std::less<>>;

struct Config : Place {
  std::string account;
  std::string base;  // of a path: "", or "/devstoreaccount1" where the host is of no account
  std::string sas;   // of option sas_token
  std::string instance = "http://169.254.169.254";  // the metadata of a virtual machine, which tests have elsewhere

  // The path of a key, encoded; that of the container if it is "".
  std::string path_of(std::string_view key) const;
};

// INVALID, without what a query or a connection string has.
Result<Config> make_config(std::string_view uri, const S3Options& options);

// What AZURE_STORAGE_CONNECTION_STRING says; nothing if it is not set.
Connection read_connection(const Place& place);
std::string setting(const Connection& connection, std::string_view name);
// A shared access signature as a query has it, without its question mark.
std::string bare_sas(std::string sas);

}  // namespace ckpt::store::azure
